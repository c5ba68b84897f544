"""The order that the history tells: a model of lanes, one head per conversation, run over every transition."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from tests.stress.found import Found, Step

_PASSED = {"release", "crash", "blame"}
"""A claim that rode along and came too early is given back before anybody acts on it."""


def wrong_order(found: Found) -> Iterator[str]:
    """Where a message or a send did not wait for the one before it, or the stored order is another one."""
    for kind in ("in", "out"):
        steps = [step for step in found.steps if step.kind == kind]
        yield from _wrong_lanes(kind, steps, found)
        yield from _wrong_places(kind, steps, found)
    yield from _wrong_ends(found)


def wrong_arrivals(found: Found, read: Mapping[str, int]) -> Iterator[str]:
    """Where a conversation's messages came in in another order than its channel had them.

    Args:
        found: What there is.
        read: The number, by name, of each message that was read from a channel; rises as they were read.
    """
    last: dict[str, int] = {}
    for step in found.steps:
        message = found.messages.get(step.identity)
        if step.kind != "in" or message is None or not step.event.startswith("accept"):
            continue
        number = read.get(message.name)
        if number is None:
            continue
        if number < last.get(message.key, number):
            yield f"{message.name} in {message.key}: accepted behind one that was read after it"
        last[message.key] = number


def done_in_order(found: Found) -> dict[str, list[int]]:
    """By conversation: the ids of its handled messages, in the order in which they were done."""
    done: defaultdict[str, list[int]] = defaultdict(list)
    for step in found.steps:
        if step.kind == "in" and step.event == "done" and step.identity in found.messages:
            done[found.messages[step.identity].key].append(step.identity)
    return done


def _wrong_lanes(kind: str, steps: list[Step], found: Found) -> Iterator[str]:
    rows = found.messages if kind == "in" else found.sends
    lanes: defaultdict[str, list[int]] = defaultdict(list)
    early: set[int] = set()
    for step in steps:
        row = rows.get(step.identity)
        if row is None:
            yield f"{kind} {step.identity}: in the history and not in the store"
            continue
        lane, is_start = lanes[row.key], False
        match step.event:
            case "accept" | "enqueue" | "requeue":
                lane.append(step.identity)
            case "accept+claim" | "enqueue+start":
                lane.append(step.identity)
                is_start = True
            case "claim" | "start":
                is_start = True
            case _:
                pass
        if is_start and (step.identity not in lane[:1]):
            if not step.event.startswith(("accept", "enqueue")):
                yield f"{kind} {step.identity} in {row.key}: {step.event} before {lane[:1]} has ended"
            early.add(step.identity)
        elif step.event in _PASSED or step.event == "recover":
            early.discard(step.identity)
        elif not is_start and step.identity in early and step.event not in {"enqueue", "accept"}:
            yield f"{kind} {step.identity} in {row.key}: {step.event} out of turn"
            early.discard(step.identity)
        if _has_ended(step, found) and step.identity in lane:
            lane.remove(step.identity)


def _has_ended(step: Step, found: Found) -> bool:
    """Whether the next of the conversation may go on after it."""
    if step.kind == "in":
        return step.after in {"done", "dead", "parked"}
    if step.after in {"sent", "dead"}:
        return True
    # Left to a person: it has no later start, and it is still uncertain.
    send = found.sends[step.identity]
    return step.after == "uncertain" and send.state == "uncertain" and send.claim == step.claim


def _wrong_places(kind: str, steps: list[Step], found: Found) -> Iterator[str]:
    """`seq` is the order of arrival in a shard, a requeue being an arrival."""
    rows = found.messages if kind == "in" else found.sends
    places: dict[int, int] = {}
    for number, step in enumerate(steps):
        if step.event.startswith(("accept", "enqueue", "requeue")):
            places[step.identity] = number
    last: dict[int, int] = {}
    for identity in sorted(places, key=places.__getitem__):
        row = rows.get(identity)
        if row is None:
            continue
        if row.seq <= last.get(row.shard, 0):
            yield f"{kind} {identity}: seq {row.seq} of shard {row.shard} is not the order of arrival"
        last[row.shard] = row.seq
    for identity in rows.keys() - places.keys():
        yield f"{kind} {identity}: in the store and not in the history"


def _wrong_ends(found: Found) -> Iterator[str]:
    """What the last transition says is what the row says."""
    last = {(step.kind, step.identity): step for step in found.steps}
    for message in found.messages.values():
        step = last.get(("in", message.id))
        if step is not None and step.after != message.status:
            yield f"in {message.id}: is {message.status}, the history says {step.after}"
    for send in found.sends.values():
        step = last.get(("out", send.id))
        if step is not None and step.after != send.state:
            yield f"out {send.id}: is {send.state}, the history says {step.after}"
