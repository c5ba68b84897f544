from __future__ import annotations

import pytest
import trio
import trio.testing

from shardline.actors.errors import BusError, Code
from shardline.runtime.tokens import Tokens


@pytest.mark.parametrize(("max_inflight", "share"), [(1, 1), (7, 1), (8, 1), (16, 2), (1_024, 128)])
def test_lane_share_is_an_eighth_and_at_least_one(max_inflight: int, share: int) -> None:
    assert Tokens(max_inflight).lane_share == share


@pytest.mark.parametrize("max_inflight", [0, -1])
def test_a_pool_without_tokens_is_refused(max_inflight: int) -> None:
    with pytest.raises(BusError) as caught:
        Tokens(max_inflight)

    assert caught.value.code is Code.INVALID_MESSAGE


def test_try_take_until_empty_and_give_back() -> None:
    tokens = Tokens(2)

    assert [tokens.try_take(), tokens.try_take(), tokens.try_take()] == [True, True, False]
    tokens.give_back(2)
    assert tokens.free == 2


def test_more_given_back_than_taken_is_an_error_and_changes_nothing() -> None:
    tokens = Tokens(2)
    tokens.try_take()
    with pytest.raises(ValueError, match="2 tokens given back, 1 are taken"):
        tokens.give_back(2)

    assert tokens.free == 1


async def test_take_waits_for_its_turn_in_order(autojump_clock: trio.testing.MockClock) -> None:
    tokens = Tokens(1)
    tokens.try_take()
    served: list[int] = []

    async def edge(number: int) -> None:
        await tokens.take(None)
        served.append(number)

    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            for number in range(3):
                nursery.start_soon(edge, number)
                await trio.testing.wait_all_tasks_blocked()
            assert tokens.waiting == 3
            for expected in range(1, 4):
                tokens.give_back()
                # Handed over at once: nobody who comes now gets past those who wait.
                assert not tokens.try_take()
                await trio.testing.wait_all_tasks_blocked()
                assert served == list(range(expected))

    assert tokens.free == 0


async def test_only_the_timeout_makes_queue_full(autojump_clock: trio.testing.MockClock) -> None:
    tokens = Tokens(1)
    await tokens.take(0)
    before_s = trio.current_time()
    with pytest.raises(BusError) as caught:
        await tokens.take(2.5)

    assert caught.value.code is Code.QUEUE_FULL
    assert trio.current_time() - before_s == pytest.approx(2.5)
    assert (tokens.free, tokens.waiting) == (0, 0)


@pytest.mark.parametrize("timeout_s", [0, -1.0])
async def test_a_timeout_in_the_past_takes_what_is_free_and_waits_for_nothing(timeout_s: float) -> None:
    tokens = Tokens(1)
    await tokens.take(timeout_s)
    with pytest.raises(BusError) as caught:
        await tokens.take(timeout_s)

    assert caught.value.code is Code.QUEUE_FULL
    assert tokens.waiting == 0


async def test_reloaded_rows_go_below_zero_and_edges_wait_until_it_is_positive(
    autojump_clock: trio.testing.MockClock,
) -> None:
    tokens = Tokens(2)
    tokens.take_reloaded(3)
    assert tokens.free == -1
    served = trio.Event()

    async def edge() -> None:
        await tokens.take(None)
        served.set()

    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(edge)
            await trio.testing.wait_all_tasks_blocked()
            tokens.give_back()
            await trio.testing.wait_all_tasks_blocked()
            assert not served.is_set()
            tokens.give_back()
            await served.wait()

    assert tokens.free == 0


async def test_a_cancelled_wait_leaves_the_line(autojump_clock: trio.testing.MockClock) -> None:
    tokens = Tokens(1)
    tokens.try_take()
    served: list[str] = []

    async def edge(name: str, *, task_status: trio.TaskStatus[trio.CancelScope]) -> None:
        with trio.CancelScope() as scope:
            task_status.started(scope)
            await tokens.take(None)
            served.append(name)

    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            first = await nursery.start(edge, "first")
            await trio.testing.wait_all_tasks_blocked()
            await nursery.start(edge, "second")
            await trio.testing.wait_all_tasks_blocked()
            first.cancel()
            await trio.testing.wait_all_tasks_blocked()
            assert tokens.waiting == 1
            tokens.give_back()

    assert served == ["second"]
    assert tokens.free == 0


async def test_a_token_granted_before_the_cancel_is_not_lost(autojump_clock: trio.testing.MockClock) -> None:
    tokens = Tokens(1)
    tokens.try_take()
    taken = False

    async def edge(scope: trio.CancelScope) -> None:
        nonlocal taken
        with scope:
            await tokens.take(None)
            taken = True

    scope = trio.CancelScope()
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(edge, scope)
            await trio.testing.wait_all_tasks_blocked()
            tokens.give_back()
            scope.cancel()

    assert taken
    assert tokens.free == 0


async def test_a_timeout_that_fires_with_the_grant_keeps_the_token(
    autojump_clock: trio.testing.MockClock,
) -> None:
    tokens = Tokens(1)
    tokens.try_take()

    async def give_back_at_the_deadline() -> None:
        await trio.sleep(1)
        tokens.give_back()

    full = False
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(give_back_at_the_deadline)
            try:
                await tokens.take(1)
            except BusError as error:
                full = error.code is Code.QUEUE_FULL

    # Either it waited in vain and the token is free, or it has the token: never both, never neither.
    assert tokens.free == (1 if full else 0)


async def test_cancel_at_every_checkpoint_of_take_keeps_the_count() -> None:
    tokens = Tokens(1)
    with trio.CancelScope() as scope:
        scope.cancel()
        await tokens.take(None)
    assert scope.cancelled_caught
    assert tokens.free == 1

    with trio.CancelScope() as scope, trio.testing.assert_checkpoints():
        await tokens.take(None)
        scope.cancel()
    assert not scope.cancelled_caught
    assert tokens.free == 0


async def test_close_wakes_the_waiting_and_refuses_the_coming(autojump_clock: trio.testing.MockClock) -> None:
    tokens = Tokens(1)
    tokens.try_take()
    codes: list[Code] = []

    async def edge(timeout_s: float | None) -> None:
        with pytest.raises(BusError) as caught:
            await tokens.take(timeout_s)
        codes.append(caught.value.code)

    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(edge, None)
            nursery.start_soon(edge, 3)
            await trio.testing.wait_all_tasks_blocked()
            tokens.close()
            nursery.start_soon(edge, 0)

    with pytest.raises(BusError) as caught:
        tokens.try_take()
    assert codes == [Code.BUS_CLOSED] * 3
    assert caught.value.code is Code.BUS_CLOSED
    tokens.give_back()
    assert tokens.free == 1
