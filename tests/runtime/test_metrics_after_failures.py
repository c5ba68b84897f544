"""What the metrics tell once all kinds of things have failed: how many, and never who, what or why."""

from __future__ import annotations

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from shardline import BusMessage, Code, Context, Permanence, Permanent, RetryPolicy, Runtime, Topology
from shardline.adapters.base import Edge, Inbound, NotSent, Uncertain
from shardline.storage.memory import open_memory
from shardline.testing import FakeChannel
from tests.adapters.telegram.samples import TOKEN
from tests.runtime.test_watch_server import values

WORD, CHAT = "a-private-word", "a-private-chat"
NEVER = RetryPolicy(max_retries=0)


class Failing(FakeChannel):
    """Fails while it reads, with all that it knows in the error."""

    def __init__(self, broken: trio.Event) -> None:
        super().__init__("down")
        self.broken = broken

    async def run(self, edge: Edge, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        await self.broken.wait()
        raise ConnectionError(f"{WORD} of {CHAT} at https://127.0.0.1/bot{TOKEN}/getUpdates")


def failing_bot() -> Topology:
    topology = Topology()

    @topology.on("chat.message", retry=NEVER)
    async def answer(ctx: Context, message: BusMessage) -> None:
        match message.payload.text.removeprefix(WORD):
            case " raise":
                raise ValueError(message.payload.text, TOKEN)
            case " die":
                raise Permanent("x.refuses", message.payload.text, chat=CHAT)
            case text:
                ctx.reply(f"{WORD}{text}")

    return topology


async def test_no_failure_brings_a_text_a_chat_or_a_token_into_the_metrics(
    mock_clock: MockClock,
) -> None:
    """No time goes by, so that what failed is not started again before it is looked at."""
    fake, gone = FakeChannel(), FakeChannel("gone")
    broken = trio.Event()
    async with Runtime.open(
        failing_bot(),
        store=open_memory(),
        adapters=[fake, gone, Failing(broken)],
        send_retry=NEVER,
        unhandled="park",
    ) as runtime:
        metrics, edge = runtime.metrics(), fake.edge
        assert edge is not None
        fake.script(
            NotSent(Code.DELIVERY_PERMANENT, Permanence.PERMANENT, text=f"{WORD} {CHAT} {TOKEN}"),
            Uncertain(f"{WORD} {CHAT} {TOKEN}"),
            RuntimeError(f"{WORD} {CHAT} {TOKEN}"),
        )
        gone.script(NotSent(Code.BAD_TOKEN, Permanence.PERMANENT, text=f"{WORD} {TOKEN}"))
        for number, text in enumerate(("raise", "die", "one", "two", "three")):
            await fake.say(f"{CHAT}-{number}", f"{WORD} {text}", sender=CHAT)
        await gone.say(CHAT, WORD)
        await fake.read(Inbound(platform_message_id=f"{CHAT}:x", address=CHAT, text=WORD, session_id=WORD))
        await fake.read(Inbound.unknown(platform_message_id=f"{CHAT}:y", address=CHAT, raw=WORD.encode()))
        edge.refused(f"{WORD} {TOKEN}", where=CHAT)
        edge.report("failing", f"{WORD} of {CHAT} with {TOKEN}", action=f"Ask {CHAT}.")
        broken.set()
        await wait_all_tasks_blocked()
        text = metrics.text().decode()

    found = values(text)
    # All of it has happened, and is counted.
    assert found["shardline_events_total event=dead"] == 3
    assert found["shardline_events_total event=refused"] == 2
    assert found["shardline_sends_uncertain"] == 2
    assert found["shardline_channel_stopped channel=gone"] == 1
    reasons = {name.partition(" ")[2] for name in found if name.startswith("shardline_health_reason")}
    assert reasons == {
        "about=gone word=channel_stopped",
        "about=fake word=channel_reports",
        "about=down word=edge_down",
        "about= word=sends_uncertain",
        "about= word=letters_dead",
    }
    said = [
        word
        for word in (WORD, CHAT, TOKEN, TOKEN.partition(":")[2], "private", "127.0.0.1", "x.refuses")
        if word in text
    ]
    assert said == []
