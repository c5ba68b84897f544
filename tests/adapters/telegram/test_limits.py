"""The rules over floods and pauses, and a flood of three chats as the whole bot meets it."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import pytest
import trio
from trio.testing import MockClock

from shardline.actors.plain import Plain
from shardline.adapters.base import Chat, NotSent, Outbound, SendOutcome, Sent
from shardline.adapters.telegram import Telegram
from shardline.adapters.telegram.api import READ_S, HttpApi
from shardline.adapters.telegram.calls import Upload
from shardline.adapters.telegram.limits import (
    CONFLICT_PAUSE_S,
    FLOOD_WINDOW_S,
    Floods,
    conflict_pause_s,
    poll_pause_s,
)
from shardline.adapters.telegram.wire import Answer, Ok, Refusal
from shardline.testing import Harness
from tests.adapters.telegram.platform import FREE, echo_bot
from tests.adapters.telegram.samples import TOKEN
from tests.adapters.telegram.test_outcomes import out
from tests.kits.timed_channel import TimedChannel

FLOOD_S = 7


def told(*floods: tuple[str, float]) -> list[bool]:
    """After each 429 (chat, when): whether it is the bot's."""
    found, now = list[bool](), Floods()
    for chat, at_s in floods:
        now = now.after(chat, at_s)
        found.append(now.is_bots)
    return found


def test_the_third_chat_within_ten_seconds_makes_it_the_bots() -> None:
    assert told(("a", 0), ("b", 5), ("c", 9.9)) == [False, False, True]
    assert told(("a", 0), ("b", 1), ("c", 2), ("d", 3)) == [False, False, True, True]


def test_one_chat_counts_once_however_often_it_is_told() -> None:
    assert told(("a", 0), ("a", 1), ("a", 2), ("b", 3), ("b", 4), ("a", 5)) == [False] * 6
    # By its last time, not by its first.
    assert told(("a", 0), ("b", 6), ("a", 9), ("c", 12)) == [False, False, False, True]


def test_what_is_older_than_the_window_counts_no_more() -> None:
    assert told(("a", 0), ("b", 11), ("c", 22)) == [False] * 3
    assert told(("a", 0), ("b", 1), ("c", 11)) == [False] * 3
    assert told(("a", 0), ("b", 1), ("c", FLOOD_WINDOW_S)) == [False] * 3
    assert told(("a", 0), ("b", 1), ("c", 2), ("d", 30)) == [False, False, True, False]


def test_so_many_chats_are_remembered_as_matter() -> None:
    floods = Floods()
    for number in range(1_000):
        floods = floods.after(str(number), number / 1_000)

    assert floods.is_bots
    assert len(floods.seen) < 10


@pytest.mark.parametrize("failures", [1, 2, 3, 5, 6, 7, 10, 1_000_000])
def test_a_pause_after_a_failed_poll_is_spread_and_has_an_end(failures: int) -> None:
    least, most = poll_pause_s(failures, 0), poll_pause_s(failures, 1)

    assert 0.5 <= least < poll_pause_s(failures, 0.5) < most <= 30
    assert poll_pause_s(failures + 1, 0) >= least
    assert poll_pause_s(failures + 1, 1) >= most


def test_a_pause_after_a_conflict_is_never_less_than_the_servers() -> None:
    assert conflict_pause_s(0) == CONFLICT_PAUSE_S == 3
    assert conflict_pause_s(0) < conflict_pause_s(0.5) < conflict_pause_s(1) == 6


@attrs.define
class Flooded:
    """A server that answers the first send to each of these chats with a 429; notes what it is asked for."""

    chats: set[int]
    asked: list[tuple[float, int]] = attrs.field(factory=list[tuple[float, int]])

    async def answer(self, fields: Mapping[str, Plain]) -> Answer:
        await trio.lowlevel.checkpoint()
        chat = fields["chat_id"]
        assert isinstance(chat, int)
        self.asked.append((trio.current_time(), chat))
        if chat in self.chats:
            self.chats.remove(chat)
            return Refusal(code=429, description="Too Many Requests", retry_after_s=FLOOD_S)
        return Ok({"message_id": len(self.asked)})


def flooded(monkeypatch: pytest.MonkeyPatch, *chats: int) -> Flooded:
    server = Flooded(set(chats))

    async def call(
        api: HttpApi,
        method: str,
        fields: Mapping[str, Plain],
        *,
        upload: Upload | None = None,
        read_s: float = READ_S,
    ) -> Answer:
        return await server.answer(fields)

    monkeypatch.setattr(HttpApi, "call", call)
    return server


def scope_of(outcome: SendOutcome) -> str | None:
    assert isinstance(outcome, NotSent)
    assert outcome.retry_after_s == FLOOD_S
    return outcome.scope


async def test_a_send_says_for_whom_a_429_is(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    flooded(monkeypatch, 1, 2, 3, 4, -5)
    channel = Telegram(TOKEN, start_wait_s=0)

    assert [scope_of(await channel.send(out(address))) for address in ("1", "2")] == ["chat", "chat"]
    assert scope_of(await channel.send(out("3"))) == "bot"
    # What goes well says nothing, and takes nothing back.
    assert isinstance(await channel.send(out("3")), Sent)
    assert scope_of(await channel.send(out("4"))) == "bot"
    await trio.sleep(11)
    assert scope_of(await channel.send(out("-5:t7"))) == "chat"


async def test_topics_of_a_group_are_one_chat_that_is_told_429(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    channel = Telegram(TOKEN, start_wait_s=0)
    for thread in (2, 3, 4, 5):
        flooded(monkeypatch, -5)
        assert scope_of(await channel.send(out(f"-5:t{thread}"))) == "chat"


@attrs.define
class Sending(TimedChannel):
    """Reads as a fake does, and sends as the real one."""

    real: Telegram = attrs.field(factory=lambda: Telegram(TOKEN, limits=FREE, start_wait_s=0))

    def chat_of(self, address: str) -> Chat:
        return self.real.chat_of(address)

    async def send(self, out: Outbound) -> SendOutcome:
        return await self.real.send(out)


@pytest.mark.parametrize("chats", [2, 3])
async def test_a_flood_of_three_chats_holds_a_fourth_and_one_of_two_does_not(
    chats: int, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = flooded(monkeypatch, *range(1, chats + 1))
    begun_s = trio.current_time()
    async with Harness(echo_bot(), channels=[Sending("telegram", Telegram(TOKEN, limits=FREE).caps)]) as bot:
        for chat in range(1, chats + 1):
            await bot.say(f"tg:{chat}", "hi")
        await bot.settle(until_s=1)
        assert sorted(chat for _, chat in server.asked) == list(range(1, chats + 1))
        await bot.say("tg:4", "hi")
        await bot.settle()
        rows = [row for chat in (*range(1, chats + 1), 4) for row in bot.outbox(f"tg:{chat}")]

    [fourth_s] = [at_s - begun_s for at_s, chat in server.asked if chat == 4]
    assert fourth_s >= FLOOD_S if chats == 3 else fourth_s < FLOOD_S
    assert [(row.attempts, row.status) for row in rows] == [(1, "sent")] * (chats + 1)
