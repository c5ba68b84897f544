"""Channels whose coroutines are asyncio's."""

from __future__ import annotations

import asyncio
from pathlib import Path

import attrs
import pytest

from shardline import BusError, Code
from shardline.adapters.base import (
    ChannelCaps,
    Inbound,
    NotSent,
    Outbound,
    SendOutcome,
    Sent,
    Uncertain,
)
from shardline.asyncio import AsyncioEdge, asyncio_adapter, runtime
from shardline.content import Action
from shardline.storage.records import OutboxState
from tests.kits.bots import check_all_done
from tests.kits.hosts import code_of_call, counting_host_bot, in_asyncio


@attrs.define(eq=False)
class Line:
    """Reads what is put into its queue, notes where it was, and sends by way of a coroutine of asyncio."""

    waiting: asyncio.Queue[str] = attrs.field(factory=asyncio.Queue[str])
    sent: list[str] = attrs.field(factory=list[str])
    outcome: SendOutcome | Exception = Sent("1")
    fails_to_start: bool = False
    has_sent_two: asyncio.Event = attrs.field(factory=asyncio.Event)
    caps: ChannelCaps = ChannelCaps(send_timeout_s=3)
    name: str = "line"
    prefix: str = "line"

    async def run(self, edge: AsyncioEdge) -> None:
        await asyncio.sleep(0)
        if self.fails_to_start:
            raise ConnectionError("no line")
        edge.started()
        number = int(edge.fact("pos") or 0)
        while True:
            text = await self.waiting.get()
            number += 1
            stored = await edge.accept(
                Inbound(platform_message_id=str(number), address="a", text=text), facts={"pos": str(number)}
            )
            assert stored is not None

    async def send(self, out: Outbound) -> SendOutcome:
        await asyncio.sleep(0)
        self.sent.append(out.text)
        if len(self.sent) == 2:
            self.has_sent_two.set()
        if out.text.endswith("hang"):
            await asyncio.sleep(3_600)
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


@attrs.define(eq=False)
class Looks(Line):
    """It can look sends up, cut texts and act."""

    caps: ChannelCaps = ChannelCaps(reconciles=True, contents=("text", "action"))
    acted: list[str] = attrs.field(factory=list[str])

    async def reconcile(self, out: Outbound) -> Sent | NotSent | None:
        await asyncio.sleep(0)
        return Sent("looked up")

    async def act(self, address: str, action: Action) -> None:
        await asyncio.sleep(0)
        self.acted.append(address)

    def split(self, text: str) -> list[str]:
        return [text[:3], text[3:]] if len(text) > 3 else [text]


def test_it_reads_and_sends_on_the_loop_of_the_program(tmp_path: Path) -> None:
    async def main() -> None:
        for round_number in range(2):
            line = Line()
            async with runtime(
                counting_host_bot(), store=tmp_path / "bot.db", adapters=[asyncio_adapter(line)]
            ) as bot:
                line.waiting.put_nowait("hi")
                line.waiting.put_nowait("there")
                await line.has_sent_two.wait()
                await bot.wait_quiet()
                check_all_done(bot.native)
            assert line.sent == [f"{round_number * 2 + n}: {text}" for n, text in ((1, "hi"), (2, "there"))]

    in_asyncio(main)


def test_any_task_of_the_program_may_hand_a_message_over(tmp_path: Path) -> None:
    """As the handlers of a bot library do, which knows nothing of the runtime's tasks."""

    @attrs.define(eq=False)
    class HandedOver(Line):
        edge: AsyncioEdge | None = None

        async def run(self, edge: AsyncioEdge) -> None:
            self.edge = edge
            edge.started()
            await asyncio.Event().wait()

        async def take(self, number: int) -> None:
            assert self.edge is not None
            await self.edge.accept(Inbound(platform_message_id=str(number), address="a", text=str(number)))

    async def main() -> None:
        line = HandedOver()
        async with runtime(
            counting_host_bot(), store=tmp_path / "bot.db", adapters=[asyncio_adapter(line)]
        ) as bot:
            for number in (1, 2, 2):
                await asyncio.create_task(line.take(number))
            await bot.wait_quiet()
        assert line.sent == ["1: 1", "2: 2"]
        assert await code_of_call(line.take(3)) is Code.BUS_CLOSED

    in_asyncio(main)


@pytest.mark.parametrize(
    ("outcome", "text", "state"),
    [
        (Sent("7"), "x", OutboxState.SENT),
        (Uncertain("who knows"), "x", OutboxState.UNCERTAIN),
        (ValueError("a bug"), "x", OutboxState.UNCERTAIN),
        (NotSent(Code.CONTENT_REFUSED, Code.CONTENT_REFUSED.permanence), "x", OutboxState.DEAD),
        (Sent("7"), "hang", OutboxState.UNCERTAIN),
    ],
)
def test_its_outcomes_are_those_of_a_channel(
    outcome: SendOutcome | Exception, text: str, state: OutboxState, tmp_path: Path
) -> None:
    async def main() -> OutboxState:
        line = Line(outcome=outcome)
        async with runtime(
            counting_host_bot(), store=tmp_path / "bot.db", adapters=[asyncio_adapter(line)]
        ) as bot:
            await bot.send("line", "line:a", text, "key")
            return bot.native.outbox.list()[0].record.state

    assert in_asyncio(main) is state


def test_what_it_can_do_beside_is_seen(tmp_path: Path) -> None:
    async def main() -> list[str]:
        line = Looks(outcome=ValueError("a bug"))
        async with runtime(
            counting_host_bot(), store=tmp_path / "bot.db", adapters=[asyncio_adapter(line)]
        ) as bot:
            delivered = await bot.send("line", "line:a", "abcdef", "key")
            assert (delivered.status, delivered.platform_message_id) == ("sent", "looked up")
        return line.sent

    assert in_asyncio(main) == ["abc", "def"]


def test_one_that_cannot_start_ends_the_opening(tmp_path: Path) -> None:
    async def main() -> None:
        line = Line(fails_to_start=True)
        with pytest.raises(BusError) as caught:
            async with runtime(
                counting_host_bot(), store=tmp_path / "bot.db", adapters=[asyncio_adapter(line)]
            ):
                pytest.fail("opened")
        assert caught.value.code is Code.ADAPTER_FAILED
        assert "no line" in str(caught.value)

    in_asyncio(main)
