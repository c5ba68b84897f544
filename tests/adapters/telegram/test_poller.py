"""Polling, on a clock that jumps: confirmations, conflicts, floods, and pages that cannot be read."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

import pytest
import trio
from trio.testing import MockClock

from shardline.actors.errors import BusError, Code
from shardline.actors.plain import Plain
from shardline.adapters.telegram.api import READ_S, NeverSent, NoAnswer
from shardline.adapters.telegram.calls import Upload
from shardline.adapters.telegram.intake import Intake, Tally
from shardline.adapters.telegram.poller import ANOTHER, WEBHOOK, Poller
from shardline.adapters.telegram.sim.bot import CONFLICT, WEBHOOK_ACTIVE
from shardline.adapters.telegram.update import Me, Reading
from shardline.adapters.telegram.wire import Answer, Ok, Refusal, read_answer
from shardline.testing import FakeEdge

Page = Callable[[Mapping[str, Plain]], Answer]


def update(number: int, chat: int = 5) -> dict[str, Plain]:
    return {
        "update_id": number,
        "message": {"message_id": number, "chat": {"id": chat, "type": "private"}, "text": f"t{number}"},
    }


class Server:
    """Answers each poll in turn by a function of its parameters; then polls stay open for ever."""

    def __init__(self, *pages: Page | Answer | Exception) -> None:
        self.pages = list(pages)
        self.asked: list[Mapping[str, Plain]] = []
        self.times: list[float] = []

    async def call(
        self,
        method: str,
        fields: Mapping[str, Plain],
        *,
        upload: Upload | None = None,
        read_s: float = READ_S,
    ) -> Answer:
        await trio.lowlevel.checkpoint()
        self.asked.append(fields)
        self.times.append(trio.current_time())
        if not self.pages:
            await trio.sleep_forever()
        page = self.pages.pop(0)
        if isinstance(page, Exception):
            raise page
        return page if isinstance(page, Ok | Refusal) else page(fields)

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()

    @property
    def offsets(self) -> list[Plain]:
        return [one.get("offset") for one in self.asked]


class Watched(FakeEdge):
    """Remembers what is reported, and when."""

    def __init__(self) -> None:
        super().__init__(channel="telegram", prefix="tg")
        self.said: list[tuple[float, str, str]] = []

    def report(self, state: str, text: str = "", *, action: str = "") -> None:
        self.said.append((trio.current_time(), state, text))


def poller(server: Server, edge: Watched) -> Poller:
    intake = Intake(edge, Reading(me=Me(id=4200)), {}, Tally())
    return Poller(server, edge, intake, allowed=["message"], poll_s=50, chance=lambda: 0.5)


async def poll(server: Server, edge: Watched, seconds: float = 1000) -> None:
    with trio.move_on_after(seconds):
        await poller(server, edge).run()


async def test_a_page_is_confirmed_by_asking_for_the_next_one(autojump_clock: MockClock) -> None:
    server, edge = Server(Ok([update(7), update(9)]), Ok([]), Ok([update(10)])), Watched()
    await poll(server, edge)

    assert server.offsets == [None, 10, 10, 11]
    assert server.asked[0] == {"timeout": 50, "limit": 100, "allowed_updates": ["message"]}
    assert [one.text for one in edge.accepted] == ["t7", "t9", "t10"]


async def test_the_cursor_follows_the_page_when_ids_begin_anew(autojump_clock: MockClock) -> None:
    server, edge = Server(Ok([update(900_000_000)]), Ok([update(12)]), Ok([update(13)])), Watched()
    await poll(server, edge)

    assert server.offsets == [None, 900_000_001, 13, 14]
    assert [one.text for one in edge.accepted] == ["t900000000", "t12", "t13"]


async def test_nothing_is_confirmed_before_all_of_the_page_is_stored(autojump_clock: MockClock) -> None:
    server, edge = Server(Ok([update(1), update(2, chat=6)])), Watched()

    async def hold(_: object) -> None:
        await trio.sleep(500)

    edge.before_commit = hold
    await poll(server, edge, 499)

    assert server.offsets == [None]
    assert edge.accepted == []


async def test_a_conflict_is_asked_again_slowly_and_told_after_a_minute(autojump_clock: MockClock) -> None:
    """Field entry 12: 409 for ever; at most one request in 3 s, and the health says why from 60 s on."""
    server, edge = Server(*[Refusal(code=409, description=CONFLICT)] * 1000), Watched()
    await poll(server, edge, 120)

    steps = [later - sooner for sooner, later in zip(server.times, server.times[1:], strict=False)]
    assert min(steps) >= 3
    assert 20 <= len(server.asked) <= 41
    assert edge.said
    assert {(state, text) for _, state, text in edge.said} == {("degraded", ANOTHER)}
    assert 60 <= edge.said[0][0] < 66


async def test_a_conflict_that_ends_is_forgotten(autojump_clock: MockClock) -> None:
    """Field entry 12: 409 for 50 s, then it works."""
    began_s = trio.current_time()

    def later(_: Mapping[str, Plain]) -> Answer:
        if trio.current_time() - began_s < 50:
            return Refusal(code=409, description=CONFLICT)
        return Ok([update(1)] if len(edge.accepted) == 0 else [])

    edge = Watched()
    server = Server(*[later] * 20)
    await poll(server, edge, 55)

    assert [one.text for one in edge.accepted] == ["t1"]
    assert [state for _, state, _ in edge.said] == ["ok"]


async def test_an_active_web_hook_is_told_at_once_as_what_it_is(autojump_clock: MockClock) -> None:
    edge = Watched()
    await poll(Server(*[Refusal(code=409, description=WEBHOOK_ACTIVE)] * 100), edge, 10)

    assert edge.said[0] == (0.0, "failing", WEBHOOK)


async def test_a_flood_is_waited_for(autojump_clock: MockClock) -> None:
    """Field entry 25: polling honours a 429 too."""
    server, edge = Server(Refusal(code=429, retry_after_s=209), Ok([update(1)])), Watched()
    await poll(server, edge)

    assert server.times[1] - server.times[0] >= 209
    assert [one.text for one in edge.accepted] == ["t1"]


async def test_failures_are_tried_again_further_and_further_apart(autojump_clock: MockClock) -> None:
    server, edge = Server(*[NeverSent("no connection: ConnectError")] * 10, Ok([update(1)])), Watched()
    await poll(server, edge)

    steps = [later - sooner for sooner, later in zip(server.times, server.times[1:], strict=False)]
    assert steps[:10] == sorted(steps[:10])
    assert max(steps[:10]) <= 30
    assert ("failing", "no connection: ConnectError") in {(state, text) for _, state, text in edge.said}
    assert edge.said[-1][1] == "ok"
    assert [one.text for one in edge.accepted] == ["t1"]


async def test_a_token_that_is_taken_back_ends_the_reading(autojump_clock: MockClock) -> None:
    with pytest.raises(BusError) as caught:
        await poller(Server(Refusal(code=401)), Watched()).run()

    assert caught.value.code is Code.BAD_TOKEN


async def test_one_update_that_cannot_be_read_holds_up_nothing(autojump_clock: MockClock) -> None:
    """Field entries 47 to 49: NaN, depth. The page is asked for one by one, the bad one is stored as it came."""
    bad = b'{"ok":true,"result":[{"update_id":8,"message":{"x":NaN}}]}'
    server = Server(
        NoAnswer("HTTP 200", b'{"ok":true,"result":[{"update_id":7},{"update_id":8,"message":{"x":NaN}}]}'),
        Ok([update(7)]),
        NoAnswer("HTTP 200", bad),
        NoAnswer("HTTP 200", bad),
        Ok([update(9)]),
    )
    edge = Watched()
    await poll(server, edge)

    assert [one.get("limit") for one in server.asked] == [100, 1, 100, 1, 100, 100]
    assert server.offsets == [None, None, 8, 8, 9, 10]
    assert [one.platform_message_id for one in edge.accepted] == ["5:7", "update:8:unreadable", "5:9"]
    assert edge.accepted[1].raw == bad


async def test_half_an_emoji_costs_its_update_nothing_but_that(autojump_clock: MockClock) -> None:
    """Field entry 47: three updates, the middle text is the JSON escape \\ud83d alone; the offset advances."""
    page = json.dumps([update(1), update(2), update(3)]).encode().replace(b'"t2"', b'"\\ud83d"')
    answer = read_answer(200, b'{"ok":true,"result":' + page + b"}")
    assert answer is not None
    edge, server = Watched(), Server(answer)
    await poll(server, edge)

    assert [one.text for one in edge.accepted] == ["t1", "\ufffd", "t3"]
    assert server.offsets == [None, 4]


async def test_a_half_answer_is_a_failure_like_any_other(autojump_clock: MockClock) -> None:
    server, edge = Server(NoAnswer("HTTP 502", b"<html>"), NoAnswer("cut"), Ok([update(1)])), Watched()
    await poll(server, edge)

    assert [one.get("limit") for one in server.asked] == [100] * 4
    assert [one.text for one in edge.accepted] == ["t1"]


async def test_echoes_are_dropped_and_counted(autojump_clock: MockClock) -> None:
    """Field entry 17: own messages and those of other bots never reach the inbox."""
    edge, tally = Watched(), Tally()
    own, other = (json.loads(json.dumps(update(number))) for number in (1, 2))
    own["message"]["from"] = {"id": 4200, "is_bot": True}
    other["message"]["from"] = {"id": 4300, "is_bot": True}
    await Intake(edge, Reading(me=Me(id=4200)), {}, tally).take_page([own, other, update(3), 17])

    assert [one.text for one in edge.accepted] == ["t3"]
    assert (tally.updates, tally.own, tally.bots, tally.unreadable) == (4, 1, 1, 1)
