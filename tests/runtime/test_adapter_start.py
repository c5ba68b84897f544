"""Adapters that cannot start, never start or fail again and again: how the runtime says so, and how soon."""

from __future__ import annotations

from collections.abc import Generator

import pytest
import structlog
import trio
from structlog.typing import EventDict
from trio.testing import MockClock

from shardline import BusError, Code, Permanent, Runtime
from shardline.runtime.adapter_start import is_mistake
from shardline.storage.memory import MemoryDatabase, open_memory
from shardline.storage.records import InboxStatus
from tests.kits.bots import check_all_done, counting_bot, until_quiet
from tests.kits.edges import Play, Playing, hanging, raising, returning

ONE_BUDGET_S = 0.1 + 0.2 + 0.4 + 0.8 + 1.6


@pytest.fixture(autouse=True)
def lines() -> Generator[list[EventDict]]:
    with structlog.testing.capture_logs() as captured:
        yield captured


async def ending_of(channel: Playing, database: MemoryDatabase | None = None) -> BusError:
    """Open a runtime over a channel and wait for its end; the store is closed properly."""
    database = database or MemoryDatabase()
    with trio.fail_after(600), pytest.raises(BusError) as ended:
        async with Runtime.open(
            counting_bot(), store=open_memory(database=database), adapters=[channel]
        ) as runtime:
            await runtime.serve()
    return ended.value


FAILURES = [
    pytest.param(OSError("no route"), Code.ADAPTER_FAILED, "OSError: no route", id="an error"),
    pytest.param(
        ExceptionGroup("two", [ExceptionGroup("one", [OSError("no route")])]),
        Code.ADAPTER_FAILED,
        "OSError: no route",
        id="a group of one",
    ),
    pytest.param(
        ExceptionGroup("two", [OSError("no route"), ValueError()]),
        Code.ADAPTER_FAILED,
        "OSError: no route, ValueError",
        id="a group of two",
    ),
    pytest.param(
        BusError(Code.RATE_LIMITED, "later"),
        Code.RATE_LIMITED,
        "BusError: RATE_LIMITED: later",
        id="a code",
    ),
    pytest.param(
        OSError("\x1b[31m" + "x" * 1000), Code.ADAPTER_FAILED, "OSError: \ufffd[31mxxx", id="a hostile text"
    ),
]


@pytest.mark.parametrize(("error", "code", "told"), FAILURES)
async def test_an_adapter_that_cannot_start_ends_the_opening_within_one_budget(
    autojump_clock: MockClock, lines: list[EventDict], error: Exception, code: Code, told: str
) -> None:
    channel = Playing("fake", always=raising(error))
    begun_s = trio.current_time()
    ended = await ending_of(channel)

    assert ended.code is code
    assert f"adapter fake cannot start: {told}" in str(ended)
    assert len(str(ended)) < 400
    assert ended.context["adapter"] == "fake"
    assert trio.current_time() - begun_s == pytest.approx(ONE_BUDGET_S, abs=0.01)
    assert len(channel.runs_s) == 6
    crashed = [line["actor"] for line in lines if line["event"] == "actor.crashed"]
    assert crashed == ["edge-fake"] * 6 + ["edges"]
    assert ended.__cause__ is not None
    assert not is_mistake(ended)


@pytest.mark.parametrize(
    "error",
    [
        BusError(Code.BAD_TOKEN, "refused"),
        BusError(Code.STORE_MISMATCH, "of another bot"),
        Permanent("x.no_account", "sign up"),
        ExceptionGroup("one", [BusError(Code.NOT_FOUND, "no log")]),
    ],
)
async def test_one_that_says_that_no_other_try_can_be_better_ends_the_opening_at_once(
    autojump_clock: MockClock, error: Exception
) -> None:
    channel, begun_s = Playing("fake", always=raising(error)), trio.current_time()
    ended = await ending_of(channel)

    assert "adapter fake cannot start" in str(ended)
    assert (len(channel.runs_s), trio.current_time() - begun_s) == (1, 0)


@pytest.mark.parametrize("code", [Code.BAD_TOKEN, Code.NOT_FOUND])
async def test_what_an_adapter_says_once_it_has_run_is_no_such_end(
    autojump_clock: MockClock, code: Code
) -> None:
    """Refused credentials stop its channel, anything else starts it anew; the runtime goes on."""
    channel = Playing("fake", raising(BusError(code, "no"), after_s=1))
    async with Runtime.open(counting_bot(), store=open_memory(), adapters=[channel]) as runtime:
        await trio.sleep(5)
        assert runtime.status().channels["fake"].is_stopped is (code is Code.BAD_TOKEN)
        assert len(channel.runs_s) == (1 if code is Code.BAD_TOKEN else 2)


async def test_an_own_code_of_an_adapter_is_kept(autojump_clock: MockClock) -> None:
    ended = await ending_of(Playing("fake", always=raising(Permanent("x.no_account", "sign up"))))

    assert (ended.code, ended.own_code) == (Code.HANDLER_FAILED, "x.no_account")
    assert "adapter fake cannot start" in str(ended)


async def test_a_mistake_in_an_adapter_is_known_as_one(autojump_clock: MockClock) -> None:
    ended = await ending_of(Playing("fake", always=raising(AttributeError("no such name"))))

    assert is_mistake(ended)


async def test_an_adapter_that_returns_before_it_is_ready_has_not_started(autojump_clock: MockClock) -> None:
    ended = await ending_of(Playing("fake", always=returning))

    assert ended.code is Code.ADAPTER_FAILED
    assert "adapter fake cannot start: RuntimeError: run returned without a call" in str(ended)


async def test_an_adapter_that_never_calls_started_is_named_and_ends_the_opening(
    autojump_clock: MockClock, lines: list[EventDict]
) -> None:
    channel, begun_s = Playing("fake", always=hanging), trio.current_time()
    database = MemoryDatabase()
    async with trio.open_nursery() as nursery:

        async def look() -> None:
            await trio.sleep(10.5)
            delayed = [line for line in lines if line["event"] == "edge.start_delayed"]
            assert [(line["channel"], line["waited_s"], line["limit_s"]) for line in delayed] == [
                ("fake", 10, 60)
            ]

        nursery.start_soon(look)
        ended = await ending_of(channel, database)

    assert ended.code is Code.ADAPTER_FAILED
    assert "adapter fake cannot start: StartTimeoutError" in str(ended)
    assert trio.current_time() - begun_s == pytest.approx(60)
    assert len(channel.runs_s) == 1
    async with Runtime.open(counting_bot(), store=open_memory(database=database)) as again:
        assert again.info.clean


async def test_an_adapter_that_starts_in_the_end_is_no_failure(autojump_clock: MockClock) -> None:
    channel = Playing("fake", *(raising(OSError(str(n))) for n in range(5)))
    async with Runtime.open(counting_bot(), store=open_memory(), adapters=[channel]) as runtime:
        assert await channel.say("a", "hi")
        await until_quiet(runtime)

        assert [out.text for out in channel.delivered] == ["1: hi"]
        assert runtime.status().run["crashes"] == 5


@pytest.mark.parametrize("play", [raising(OSError("gone"), after_s=0), raising(OSError("gone"))])
async def test_a_channel_that_ran_once_has_the_budgets_of_two_supervisors(
    autojump_clock: MockClock, play: Play
) -> None:
    """It lost its network: all channels start anew five times before the runtime ends."""
    channel, begun_s = Playing("fake", raising(OSError("first"), after_s=1), always=play), trio.current_time()
    ended = await ending_of(channel)

    assert ended.code is Code.ADAPTER_FAILED
    assert "adapter fake failed: OSError: gone" in str(ended)
    assert 20 < trio.current_time() - begun_s < 50
    assert len(channel.runs_s) > 30


async def test_a_store_that_is_full_spends_no_budget_of_a_channel(autojump_clock: MockClock) -> None:
    full = raising(BusError(Code.STORE_FULL, "no space"), after_s=0)
    channel = Playing("fake", *[full] * 100)
    async with Runtime.open(counting_bot(), store=open_memory(), adapters=[channel]) as runtime:
        await trio.sleep(510)

        assert await channel.say("a", "there is room")
        await until_quiet(runtime)
        waits_s = {
            round(later - earlier, 3)
            for earlier, later in zip(channel.runs_s, channel.runs_s[1:], strict=False)
        }
        assert waits_s == {5.0}


async def test_one_channel_that_cannot_start_is_named_among_others(autojump_clock: MockClock) -> None:
    good, bad = Playing("good"), Playing("bad", always=raising(OSError("no")))
    with pytest.raises(BusError, match="adapter bad cannot start: OSError: no"):
        async with Runtime.open(counting_bot(), store=open_memory(), adapters=[good, bad]):
            pytest.fail("the block must not begin")


async def leave_work(database: MemoryDatabase, channel: Playing) -> None:
    """A runtime that ends with a message handled half: its turn is cut off and goes back to the store."""
    async with Runtime.open(
        counting_bot(work_s=20), store=open_memory(database=database), adapters=[channel], grace_s=0
    ):
        await channel.say("a", "hi")
        await trio.testing.wait_all_tasks_blocked()


@pytest.mark.parametrize("grace_s", [60.0, 2.0])
async def test_a_signal_while_it_opens_is_a_stop_in_good_order(
    autojump_clock: MockClock, grace_s: float
) -> None:
    """The turn that began while the channel still starts gets its grace time."""
    database = MemoryDatabase()
    await leave_work(database, Playing("fake"))
    send, signals = trio.open_memory_channel[int](1)
    begun_s = trio.current_time()
    async with trio.open_nursery() as nursery:

        async def strike() -> None:
            await trio.sleep(5)
            send.send_nowait(15)

        nursery.start_soon(strike)
        async with Runtime.open(
            counting_bot(work_s=20),
            store=open_memory(database=database),
            adapters=[Playing("fake", always=hanging)],
            grace_s=grace_s,
            signals=signals,
        ) as runtime:
            await runtime.serve()

    assert trio.current_time() - begun_s == pytest.approx(min(20.0, 5 + grace_s), abs=0.1)
    assert runtime.has_cancelled_work is (grace_s < 15)
    async with Runtime.open(
        counting_bot(), store=open_memory(database=database), adapters=[Playing("fake")]
    ) as again:
        await until_quiet(again)
        assert again.info.clean
        check_all_done(again)


async def test_a_second_signal_while_it_opens_ends_the_waiting(autojump_clock: MockClock) -> None:
    database = MemoryDatabase()
    await leave_work(database, Playing("fake"))
    send, signals = trio.open_memory_channel[int](2)
    begun_s = trio.current_time()
    async with trio.open_nursery() as nursery:

        async def strike() -> None:
            for _ in range(2):
                await trio.sleep(1)
                send.send_nowait(2)

        nursery.start_soon(strike)
        async with Runtime.open(
            counting_bot(work_s=20),
            store=open_memory(database=database),
            adapters=[Playing("fake", always=hanging)],
            signals=signals,
        ) as runtime:
            pass

    assert trio.current_time() - begun_s == pytest.approx(2, abs=0.1)
    assert runtime.has_cancelled_work


async def test_a_block_cancelled_while_it_opens_counts_no_crash(autojump_clock: MockClock) -> None:
    database = MemoryDatabase()
    await leave_work(database, Playing("fake"))
    with trio.move_on_after(5):
        async with Runtime.open(
            counting_bot(work_s=20),
            store=open_memory(database=database),
            adapters=[Playing("fake", always=hanging)],
            grace_s=2,
        ):
            pytest.fail("the block must not begin")
    async with Runtime.open(
        counting_bot(), store=open_memory(database=database), adapters=[Playing("fake")]
    ) as again:
        assert again.info.clean
        await until_quiet(again)
        assert again.status().inbox[InboxStatus.DONE] == 1
        check_all_done(again)


@pytest.mark.parametrize("is_idle", [True, False])
async def test_a_kill_is_warned_of_only_where_it_left_something(
    autojump_clock: MockClock, lines: list[EventDict], is_idle: bool
) -> None:
    database, left = MemoryDatabase(), MemoryDatabase()
    channel = Playing("fake")
    async with Runtime.open(
        counting_bot(work_s=1), store=open_memory(database=database), adapters=[channel]
    ) as runtime:
        await channel.say("a", "hi")
        if is_idle:
            await until_quiet(runtime)
        left = database.copy()
    async with Runtime.open(counting_bot(), store=open_memory(database=left), adapters=[channel]) as again:
        assert not again.info.clean

    recovered = [line for line in lines if line["event"] == "runtime.recovered"]
    assert [(line["claimed"], line["flying"]) for line in recovered] == ([] if is_idle else [(1, 0)])
