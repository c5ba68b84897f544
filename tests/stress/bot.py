"""The bot and the channels under stress: they do what the texts say, and nothing else."""

from __future__ import annotations

from array import array
from hashlib import blake2b
from pathlib import Path
from typing import Final

import trio

from shardline import BusMessage, Code, Context, Permanence, Permanent, RetryPolicy, Topology
from shardline.adapters.base import (
    ChannelCaps,
    Edge,
    Inbound,
    NotSent,
    Outbound,
    SendOutcome,
    Sent,
    Uncertain,
)
from tests.stress.ledger import Ledger
from tests.stress.plan import READERS, Plan
from tests.stress.script import (
    DEAD_ACTS,
    EVENT_TOPIC,
    REVIVED_CODE,
    SEND_TRIES,
    SLOW_TOPIC,
    TOPICS,
    TURN_TRIES,
    Act,
    Mood,
    Script,
    parse,
)

REPEATED: Final = 2
"""So many messages that were answered the platform says once more after a restart."""

SEND_RETRY: Final = RetryPolicy(max_retries=SEND_TRIES - 1, base_delay_s=0.05, max_delay_s=0.1)
CAPS: Final = {
    "sure": ChannelCaps(reconciles=True, send_timeout_s=0.5, topics=(*TOPICS, SLOW_TOPIC)),
    "once": ChannelCaps(deduplicates=True, topics=(*TOPICS, SLOW_TOPIC)),
    "blind": ChannelCaps(topics=(*TOPICS, SLOW_TOPIC)),
}


def linked(chain: str, name: str) -> str:
    """The chain of a conversation after one more message: it names them all, in their order."""
    return blake2b(f"{chain}\n{name}".encode(), digest_size=8).hexdigest()


def stress_topology() -> Topology:
    """Two topics of any size, one of them split by channel, one with a short time limit, and a log."""
    topology = Topology()
    topology.topic(EVENT_TOPIC)
    quick = RetryPolicy(max_retries=TURN_TRIES - 1, base_delay_s=0.05, max_delay_s=0.1)
    # Where the machine stands still for a moment, a turn may meet the short limit by chance: it has many tries.
    patient = RetryPolicy(max_retries=50, base_delay_s=0.05, max_delay_s=0.1)
    chat, reply = TOPICS
    topology.on(chat, retry=quick)(handle)
    topology.on(chat, channel="once", retry=quick)(handle)
    topology.on(reply, retry=quick)(handle)
    topology.on(SLOW_TOPIC, retry=patient, timeout_s=0.3)(handle)
    return topology


async def handle(ctx: Context, message: BusMessage) -> None:
    """Do what the text says."""
    script = parse(message.payload.text)
    turns, chain = ctx.state.get("turns", 0), ctx.state.get("chain", "")
    assert isinstance(turns, int)
    assert isinstance(chain, str)
    # Decided before anything fails: nothing of it may be left of a turn that does not end well.
    _decide(ctx, script)
    ctx.state["turns"] = turns + 1
    ctx.state["chain"] = linked(chain, script.name)
    if script.pad is not None:
        ctx.state["pad"] = "x" * script.pad
    await _act(ctx, script)


def _decide(ctx: Context, script: Script) -> None:
    for index, say in enumerate(script.says):
        text = script.send_text(index)
        if say.key is None:
            ctx.reply(text, on_uncertain=say.policy)
        else:
            ctx.send(say.key.partition(":")[0], say.key, text, on_uncertain=say.policy)
    for tell in script.tells:
        ctx.publish(tell.topic, tell.script.text, key=tell.key)
    if script.has_event:
        ctx.publish(EVENT_TOPIC, {"n": script.name}, key=ctx.message.conversation_key)


async def _act(ctx: Context, script: Script) -> None:
    match script.act:
        case Act.OK:
            return
        case Act.SLOW:
            await trio.sleep(0.01)
        case Act.HANG:
            if ctx.failures < script.times:
                await trio.sleep(60)
        case Act.REVIVE:
            if ctx.generation == 0:
                raise Permanent(REVIVED_CODE)
        case Act.PERMANENT:
            raise Permanent(str(DEAD_ACTS[Act.PERMANENT]))
        case Act.PERMANENT_GROUP:
            raise ExceptionGroup("two", [ValueError("one"), Permanent(str(DEAD_ACTS[Act.PERMANENT_GROUP]))])
        case Act.SPENT:
            raise ValueError("always")
        case Act.FAIL:
            if ctx.failures < script.times:
                raise ValueError("for now")
        case Act.FAIL_GROUP:
            if ctx.failures < script.times:
                raise ExceptionGroup("both", [ValueError("for now"), OSError("for now")])


class StressChannel:
    """Reads what the plan says, from where its facts say; sends as the texts say, and notes what it really sent."""

    def __init__(self, name: str, plan: Plan, folder: Path) -> None:
        self.name = name
        self.prefix = name
        self.caps = CAPS[name]
        self._plan = plan
        self._ledger = Ledger(folder, name)
        self._read = [plan.read_by(name, reader) for reader in range(READERS)]
        self._asked: set[str] = set()

    def close(self) -> None:
        self._ledger.close()

    async def run(self, edge: Edge, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        async with trio.open_nursery() as nursery:
            for reader, numbers in enumerate(self._read):
                nursery.start_soon(self._read_on, edge, str(reader), numbers)

    async def _read_on(self, edge: Edge, reader: str, numbers: array[int]) -> None:
        begun = int(edge.fact(reader) or 0)
        for place in range(max(0, begun - REPEATED), len(numbers)):
            item = self._plan.item(numbers[place])
            inbound = Inbound(
                platform_message_id=item.script.name,
                address=item.address,
                text=item.script.text,
                topic=item.topic,
            )
            # What is repeated must not set the place back.
            await edge.accept(inbound, facts={reader: str(max(begun, place + 1))})

    async def send(self, out: Outbound) -> SendOutcome:
        await trio.lowlevel.checkpoint()
        mood = Mood(out.text.partition(" ")[2])
        if mood is Mood.REFUSED:
            return NotSent(Code.CONTENT_REFUSED, Permanence.PERMANENT)
        if mood is Mood.SPENT or (mood is Mood.LATER and out.attempt <= 2):
            # A code that says nothing about the recipient: a mark would refuse the sends after it as well.
            return NotSent(Code.NOT_FOUND, Permanence.TRANSIENT)
        if mood is Mood.LIMITED and out.claim == 1:
            return NotSent(Code.RATE_LIMITED, Permanence.TRANSIENT, retry_after_s=0.05)
        is_first = out.attempt == 1
        if is_first and mood in {Mood.LOST_UNSENT, Mood.RAISED_UNSENT, Mood.HUNG}:
            if mood is Mood.RAISED_UNSENT:
                raise OSError("no answer")
            if mood is Mood.HUNG:
                await trio.sleep(60)
            return Uncertain("no answer")
        if self.caps.deduplicates and out.claim > 1 and self._ledger.has(out):
            return Sent(None, deduped=True)
        self._ledger.note(out)
        if is_first and mood is Mood.RAISED_SENT:
            raise OSError("no answer")
        if is_first and mood is Mood.LOST_SENT:
            return Uncertain("no answer")
        await trio.lowlevel.checkpoint()
        return Sent(out.idempotency_key)

    async def reconcile(self, out: Outbound) -> Sent | NotSent | None:
        await trio.lowlevel.checkpoint()
        if out.id % 4 == 0 and out.idempotency_key not in self._asked:
            # The first question after each start of the process meets a line that is down.
            self._asked.add(out.idempotency_key)
            raise OSError("no line")
        self._asked.discard(out.idempotency_key)
        if self._ledger.has(out):
            return Sent(out.idempotency_key)
        return NotSent(Code.NOT_FOUND, Permanence.TRANSIENT)
