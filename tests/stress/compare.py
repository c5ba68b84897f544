"""Compares what a run has left with what the model says: every difference is a line."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from shardline.storage.sqlite.health import integrity
from shardline.storage.sqlite.look import Look
from shardline.storage.sqlite.verify import verify
from tests.stress.bot import linked
from tests.stress.found import Found, Send, read_found
from tests.stress.model import SendStory, Wanted, wanted_of, wrong_in
from tests.stress.order import done_in_order, wrong_arrivals, wrong_order
from tests.stress.plan import Plan
from tests.stress.script import OPEN_MOODS

CUT_OFF = "stopped while sending"
"""What a row says of a call that a crash of its delivery actor cut off."""


def differences(plan: Plan, store: Path) -> list[str]:
    """All that is not as it must be; empty if nothing.

    Args:
        plan: What was asked for.
        store: What is left of it, at rest; the ledgers lie beside it.
    """
    with Look(store) as look:
        health = integrity(look, is_full=True)
        health += [
            f"history, {one.fault}: shard {one.shard}, row {one.hseq} {one.text}"
            for one in verify(look).findings
        ]
    found, wanted = read_found(store), wanted_of(plan)
    return [
        *health,
        *found.odd,
        *_messages(found, wanted),
        *_sends(found, wanted),
        *_events(found, wanted),
        *_states(found, wanted),
        *_sent_order(found),
        *wrong_order(found),
        *wrong_arrivals(found, plan.read_numbers()),
    ]


def _messages(found: Found, wanted: dict[str, Wanted]) -> Iterator[str]:
    counts = Counter(message.name for message in found.messages.values())
    for name in wanted.keys() - counts.keys():
        yield f"{name}: lost"
    for name, count in counts.items():
        if count > 1 or name not in wanted:
            yield f"{name}: stored {count} times, wanted {int(name in wanted)}"
    for message in found.messages.values():
        want = wanted.get(message.name)
        if want is None:
            continue
        status = "dead" if want.is_dead else "done"
        if (message.key, message.topic, message.status) != (want.key, want.topic, status):
            yield (
                f"{message.name}: {message.topic} in {message.key} is {message.status}, wanted {want.topic} in"
                f" {want.key} {status}"
            )
        if not want.has_failures(message.failures):
            yield f"{message.name}: {message.failures} failures, wanted {want.script.times} ({want.script.act})"
        if message.generation != want.generation:
            yield f"{message.name}: generation {message.generation}, wanted {want.generation}"
        if message.status == "done" and message.crashes:
            yield f"{message.name}: done with {message.crashes} crashes"
        if status == "dead" and (message.code, message.own_code) != ("HANDLER_FAILED", want.own_code):
            yield f"{message.name}: died of {message.code} {message.own_code}, wanted {want.own_code}"


def _sends(found: Found, wanted: dict[str, Wanted]) -> Iterator[str]:
    names = {message.id: message.name for message in found.messages.values()}
    by_label: defaultdict[str, list[Send]] = defaultdict(list)
    for send in found.sends.values():
        by_label[send.text].append(send)
    lines: defaultdict[str, list[int]] = defaultdict(list)
    for sent in found.lines.values():
        for line in sent:
            lines[line.idempotency_key].append(line.claim)
    starts: defaultdict[int, set[int]] = defaultdict(set)
    cuts: Counter[int] = Counter()
    answers: Counter[int] = Counter()
    for step in found.steps:
        if step.kind == "out":
            if step.event in {"start", "enqueue+start"}:
                starts[step.identity].add(step.claim)
            elif step.event == "recover":
                cuts[step.identity] += 1
            elif step.event == "uncertain":
                answers[step.identity] += 1
    for want in wanted.values():
        for index in range(0 if want.is_dead else len(want.script.says)):
            label, say = want.script.send_text(index), want.script.says[index]
            rows = by_label.pop(label, [])
            if len(rows) != 1:
                yield f"{label}: {len(rows)} sends, wanted 1"
                continue
            (send,) = rows
            if (send.key, names.get(send.inbox_id or 0)) != (want.send_key(index), want.script.name):
                yield f"{label}: to {send.key}, wanted {want.send_key(index)}"
            # What is uncertain although the channel gave an answer was cut off by a crash, and so was a call that
            # never got to its answer.
            scripted = say.mood in OPEN_MOODS
            unanswered = max(0, answers[send.id] - scripted, int(CUT_OFF in send.errors))
            story = SendStory(
                channel=send.channel,
                say=say,
                state=send.state,
                code=send.code,
                starts=frozenset(starts[send.id]),
                lines=tuple(lines.pop(send.idempotency_key, ())),
                cuts=cuts[send.id] + unanswered,
                attempts=send.attempts,
            )
            wrong = wrong_in(story)
            if wrong is not None:
                yield f"{label} ({send.id}, {send.channel}, {say.policy}): {wrong}"
    for label, rows in by_label.items():
        yield f"{label}: {len(rows)} sends that nobody decided"
    for key, claims in lines.items():
        yield f"{key}: sent under {claims} and not in the store"


def _events(found: Found, wanted: dict[str, Wanted]) -> Iterator[str]:
    want = Counter(want.script.name for want in wanted.values() if want.script.has_event and not want.is_dead)
    for name in want.keys() | found.events.keys():
        if want[name] != found.events[name]:
            yield f"{name}: {found.events[name]} events, wanted {want[name]}"


def _states(found: Found, wanted: dict[str, Wanted]) -> Iterator[str]:
    """A conversation's state names the messages it was made from, in the order of their places."""
    in_order = done_in_order(found)
    for key in in_order.keys() | found.states.keys():
        done = [found.messages[row_id] for row_id in in_order.get(key, [])]
        if [message.seq for message in done] != sorted(message.seq for message in done):
            yield f"{key}: not handled in the order of acceptance"
        chain, pad = "", 0
        for message in sorted(done, key=lambda one: one.seq):
            chain = linked(chain, message.name)
            want = wanted.get(message.name)
            if want is not None and want.script.pad is not None:
                pad = want.script.pad
        state = found.states.get(key, {})
        if (state.get("turns", 0), state.get("chain", "")) != (len(done), chain):
            yield f"{key}: its state is that of {state.get('turns')!r} turns in another order, wanted {len(done)}"
        if state.get("pad", "") != "x" * pad:
            yield f"{key}: another turn's padding"


def _sent_order(found: Found) -> Iterator[str]:
    """What went out to a conversation went out in the order of its places; a repeat follows its first at once."""
    places = {send.idempotency_key: send.seq for send in found.sends.values()}
    for key, lines in found.lines.items():
        seqs = [places.get(line.idempotency_key, 0) for line in lines]
        for before, after in pairwise(seqs):
            if after < before:
                yield f"{key}: the send of seq {after} went out after that of {before}"
