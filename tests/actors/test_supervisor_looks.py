"""What a look at a supervisor shows, how crashes are counted, and crashes that are treated apart."""

import attrs
import pytest
import trio
from trio.testing import MockClock

from shardline.actors.actor import Actor
from shardline.actors.errors import BusError, Code
from shardline.actors.restart import Backoff, Restart, RestartBudget
from shardline.actors.supervisor import ChildSpec, ChildState, Supervisor
from tests.kits.stage import Boom, Stage, escalation_of, running, settle, states


class Full(Exception):
    pass


def is_full(error: Exception) -> bool:
    return isinstance(error, Full)


@pytest.fixture
def stage() -> Stage:
    return Stage()


async def test_a_look_shows_the_last_error_by_its_names(stage: Stage, autojump_clock: MockClock) -> None:
    supervisor = stage.supervisor(*map(stage.child, "ab"))
    async with running(supervisor):
        seen = [supervisor.statistics()[0]]
        for error in (BusError(Code.STORE_BUSY, "secret"), Boom("secret")):
            stage.crash("a", error)
            await settle()
            seen.append(supervisor.statistics()[0])

        assert [(look.last_error_type, look.last_error_code, look.crashes) for look in seen] == [
            (None, None, 0),
            ("BusError", Code.STORE_BUSY, 1),
            ("Boom", None, 2),
        ]
        assert supervisor.statistics()[1].last_error_type is None
    assert "secret" not in str(seen)


async def test_a_look_shows_what_waits_in_a_mailbox(stage: Stage, autojump_clock: MockClock) -> None:
    class Slow(Actor[int]):
        async def handle(self, message: int) -> None:
            await trio.sleep_forever()

    actor = Slow("slow", capacity=40)
    supervisor = stage.supervisor(ChildSpec("slow", actor.run, mailbox=actor.mailbox), stage.child("without"))
    for number in range(3):
        actor.ref.tell(number)

    slow, without = supervisor.statistics()
    assert (slow.mailbox_messages, slow.mailbox_capacity) == (3, 40)
    assert (without.mailbox_messages, without.mailbox_capacity) == (None, None)
    async with running(supervisor):
        await settle()
        for number in range(5):
            actor.ref.tell(number)
        assert supervisor.statistics()[0].mailbox_messages == 5


async def test_a_look_shows_the_tree_and_a_crash_is_counted_once_however_far_it_escalates(
    stage: Stage, autojump_clock: MockClock
) -> None:
    counted: list[None] = []

    def note() -> None:
        counted.append(None)

    low = Supervisor(
        "low", [stage.child("a")], budget=RestartBudget(intensity=0), log=stage.log, crashed=note
    )
    mid = Supervisor("mid", [low.as_child()], budget=RestartBudget(intensity=0), log=stage.log, crashed=note)
    top = Supervisor("top", [mid.as_child(), stage.child("b")], log=stage.log, crashed=note)
    async with running(top):
        stage.crash("a", BusError(Code.STORE_IO, "gone"))
        await settle()

        shown, b = top.statistics()
        for name in ("mid", "low", "a"):
            assert (shown.name, shown.state, shown.restarts) == (name, ChildState.RUNNING, 1)
            assert (shown.crashes, shown.last_error_code) == (1, Code.STORE_IO)
            if name != "a":
                [shown] = shown.children
        assert (b.crashes, b.children) == (0, ())
    assert len(counted) == 1
    assert len(stage.lines("actor.crashed")) == 3


async def test_an_excused_crash_spends_no_budget_and_waits_the_longest(
    stage: Stage, autojump_clock: MockClock
) -> None:
    spec = attrs.evolve(stage.child("a"), is_excused=is_full)
    supervisor = stage.supervisor(
        spec, budget=RestartBudget(intensity=1), backoff=Backoff(initial_s=1, max_s=4)
    )

    async def drive() -> None:
        await settle()
        for _ in range(10):
            stage.crash("a", Full())
            await settle()
        assert {
            later - earlier
            for (_, earlier), (_, later) in zip(stage.started_s[1:], stage.started_s[2:], strict=False)
        } == {8.0}
        assert stage.started_s[1] == ("a", 8.0 + 4.0)
        # The budget is whole: one crash that counts is borne, the second one not.
        stage.crash("a", Boom())
        await settle()
        assert states(supervisor) == {"a": "running"}
        stage.crash("a", error)

    error = Boom()
    assert await escalation_of(supervisor.run, drive) is error


async def test_only_the_crashes_that_are_picked_end_the_supervisor(
    stage: Stage, autojump_clock: MockClock
) -> None:
    supervisor = stage.supervisor(attrs.evolve(stage.child("a"), escalates=is_full), stage.child("b"))
    error = Full()

    async def drive() -> None:
        await settle()
        stage.crash("a")
        await settle()
        # An end without an exception is nothing to pick from.
        stage.end("a")
        await settle()
        assert stage.take() == "+a +b -a +a -a +a"
        stage.crash("a", error)

    assert await escalation_of(supervisor.run, drive) is error
    assert stage.take() == "-a -b"


async def test_an_added_temporary_child_that_escalates_does_not_come_again(
    stage: Stage, autojump_clock: MockClock
) -> None:
    supervisor = stage.supervisor(stage.child("a"))

    async def drive() -> None:
        await settle()
        supervisor.add(stage.child("t", Restart.TEMPORARY, escalates=True))
        await settle()
        supervisor.add(stage.child("p"))
        await settle()
        stage.crash("t", error)

    error = Boom()
    assert await escalation_of(supervisor.run, drive) is error
    assert stage.take() == "+a +t +p -t -p -a"
    async with running(supervisor):
        assert stage.take() == "+a +p"
