"""Half-dead states are said in plain words, and stop being said when they are over."""

from __future__ import annotations

import json
from pathlib import Path

import attrs
import pytest
import trio
from trio.testing import MockClock

from shardline import Breaker, BusError, BusMessage, Code, Context, Permanence, Runtime, Topology
from shardline.actors.child import ChildState, ChildStatistics
from shardline.actors.clock import FakeClock
from shardline.actors.plain import Plain
from shardline.adapters.base import NotSent, Uncertain
from shardline.runtime.channel_status import ChannelStatus
from shardline.runtime.command.health import show_health
from shardline.runtime.command.live import Live
from shardline.runtime.defaults import EDGE_REPORT_S, LOG_WARN_BYTES, PULSE_S
from shardline.runtime.edge_report import EdgeReport, EdgeReports
from shardline.runtime.health import Facts, Health, HealthState, health_of, judge
from shardline.runtime.intake import IntakeStatus
from shardline.storage.condition import LogState
from shardline.storage.memory import open_memory
from shardline.storage.sqlite import open_sqlite
from shardline.testing import FakeChannel
from tests.kits.bots import counting_bot, until_quiet
from tests.kits.operated import operate

OPEN = IntakeStatus(is_paused=False, backlog=0, resume_at=9, max_backlog=10, max_lane_backlog=10)
WELL = Facts(
    moved=None,
    trouble=None,
    log=LogState(LOG_WARN_BYTES, 1.0),
    intake=OPEN,
    overdue_turns=0,
    suspects=0,
    breakers=(),
    channels={},
    edges=(ChildStatistics(name="edge-fake", state=ChildState.RUNNING, restarts=3, crashes=3),),
    reports={},
    uncertain=0,
    dead=0,
)
QUIET = ChannelStatus(
    running=0,
    waiting=0,
    paused_s=0,
    paused_chats=0,
    limited_chats=0,
    is_stopped=False,
    code=None,
    moved_chats=0,
    unreachable=0,
)


def words(health: Health) -> list[tuple[str, str]]:
    return [(reason.word, reason.about) for reason in health.reasons]


@pytest.mark.parametrize(
    ("facts", "word", "state"),
    [
        (attrs.evolve(WELL, trouble=Code.STORE_FULL), "store_failing", "failing"),
        (attrs.evolve(WELL, moved="file"), "store_moved", "failing"),
        (attrs.evolve(WELL, moved="log"), "store_moved", "failing"),
        (attrs.evolve(WELL, log=LogState(LOG_WARN_BYTES + 1, 1.0)), "log_grown", "degraded"),
        (attrs.evolve(WELL, intake=attrs.evolve(OPEN, is_paused=True)), "intake_paused", "degraded"),
        (attrs.evolve(WELL, overdue_turns=1), "turns_overdue", "degraded"),
        (attrs.evolve(WELL, suspects=1), "suspects_first", "degraded"),
        (
            attrs.evolve(WELL, channels={"a": attrs.evolve(QUIET, is_stopped=True, code=Code.BAD_TOKEN)}),
            "channel_stopped",
            "failing",
        ),
        (attrs.evolve(WELL, channels={"a": attrs.evolve(QUIET, paused_s=2.0)}), "channel_paused", "degraded"),
        (
            attrs.evolve(WELL, edges=(attrs.evolve(WELL.edges[0], state=ChildState.WAITING),)),
            "edge_down",
            "degraded",
        ),
        (
            attrs.evolve(WELL, reports={"a": EdgeReport("failing", "no events", "")}),
            "channel_reports",
            "failing",
        ),
        (attrs.evolve(WELL, uncertain=1), "sends_uncertain", "degraded"),
        (attrs.evolve(WELL, dead=1), "letters_dead", "ok"),
    ],
)
def test_each_thing_that_is_wrong_has_its_word(facts: Facts, word: str, state: str) -> None:
    health = health_of(judge(facts))

    assert [reason.word for reason in health.reasons] == [word]
    assert health.state == state
    assert all(reason.text and reason.action for reason in health.reasons)


def test_nothing_wrong_is_ok_and_the_worst_counts() -> None:
    assert health_of(judge(WELL)) == Health(HealthState.OK, ())
    both = attrs.evolve(WELL, dead=1, uncertain=1, trouble=Code.STORE_BUSY)
    health = health_of(judge(both))
    assert health.state is HealthState.FAILING
    assert [reason.word for reason in health.reasons] == ["store_failing", "sends_uncertain", "letters_dead"]


def test_a_report_holds_until_it_is_taken_back_or_old() -> None:
    reports = EdgeReports()

    assert reports.tell("degraded", "one", "", 0.0)
    assert not reports.tell("degraded", "one", "", 100.0)
    assert reports.at(100.0 + EDGE_REPORT_S - 1) == EdgeReport("degraded", "one", "")
    assert reports.at(100.0 + EDGE_REPORT_S) is None
    assert reports.tell("failing", "two", "", 300.0)
    assert reports.tell("ok", "", "", 301.0)
    assert reports.at(301.0) is None


@pytest.mark.parametrize(("state", "text"), [("bad", "text"), ("degraded", " "), ("failing", "")])
def test_a_report_that_is_none_is_refused(state: str, text: str) -> None:
    with pytest.raises(BusError) as refused:
        EdgeReports().tell(state, text, "", 0.0)  # type: ignore[arg-type] # the point of the test

    assert refused.value.code is Code.INVALID_MESSAGE


async def test_a_runtime_says_what_it_meets_and_since_when(autojump_clock: MockClock, tmp_path: Path) -> None:
    path, clock, topology = tmp_path / "bot.db", FakeClock(), Topology()

    @topology.on("chat.message", breaker=Breaker(failures=1, open_s=60))
    async def answer(ctx: Context, message: BusMessage) -> None:
        if message.payload.text == "die":
            raise RuntimeError
        ctx.reply("re")

    channel = FakeChannel()
    store = open_sqlite(path, mode="inline", durability="normal", clock=clock)
    async with Runtime.open(topology, store=store, adapters=[channel], clock=clock) as runtime:
        assert runtime.health() == Health(HealthState.OK, ())
        channel.script(Uncertain("no answer"))
        await channel.say("a", "hi")
        await trio.sleep(1)
        first = runtime.health()
        assert words(first) == [("sends_uncertain", "")]
        await trio.sleep(10)
        assert runtime.health() == first
        await channel.say("b", "die")
        await trio.sleep(1)
        assert set(words(runtime.health())) == {("sends_uncertain", ""), ("breaker_open", "chat.message")}
        channel.script(NotSent(Code.BAD_TOKEN, Permanence.TRANSIENT))
        await trio.sleep(PULSE_S)

        ended = operate("status", "--health", "--store", path, "--json")
        assert ended.exit_code == 1
        [told] = [json.loads(line) for line in ended.stdout.splitlines()]
        # The store's time is not the machine's.
        assert told["state"] == "stale"
        assert {reason["word"] for reason in told["reasons"]} == {"sends_uncertain", "breaker_open"}


async def test_since_when_is_told_in_the_time_of_a_clock_that_was_set(autojump_clock: MockClock) -> None:
    clock, channel = FakeClock(), FakeChannel()
    async with Runtime.open(
        counting_bot(), store=open_memory(clock=clock), adapters=[channel], clock=clock
    ) as runtime:
        channel.script(Uncertain("no answer"))
        await channel.say("a", "hi")
        await trio.sleep(1)
        assert words(runtime.health()) == [("sends_uncertain", "")]
        for set_us in (-3_600_000_000, 7_200_000_000):
            await trio.sleep(100)
            clock.jump_wall(set_us)
            (reason,) = runtime.health().reasons
            begun_us = clock.wall_us() - reason.since_us
            assert abs(begun_us - (100_000_000 if set_us < 0 else 200_000_000)) < 1_000


def test_a_time_to_come_is_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """What was written just before the clock was set back."""
    reason: dict[str, Plain] = {
        "word": "intake_paused", "about": "", "state": "degraded", "text": "1 waits", "action": "Wait."
    }  # fmt: skip
    for since_us, shown in ((9_000_000, ", since 1s"), (60_000_000, "")):
        health: Plain = {"state": "degraded", "reasons": [{**reason, "since_us": since_us}]}
        show_health(Live(age_s=1, is_stale=False, said={"health": health}), 10_000_000)
        assert f"  intake_paused: 1 waits{shown}\n" in capsys.readouterr().out


async def test_the_command_tells_a_well_owner_from_one_that_stopped(tmp_path: Path) -> None:
    path = tmp_path / "bot.db"
    channel = FakeChannel()
    async with Runtime.open(counting_bot(), store=path, adapters=[channel]) as runtime:
        # Behind it the owner's first note is on disk.
        await channel.say("a", "hi")
        await until_quiet(runtime)
        well = operate("status", "--health", "--store", path)
    stopped = operate("status", "--health", "--store", path)

    assert (well.exit_code, well.stdout) == (0, "health  ok\n")
    assert stopped.exit_code == 1
    assert "health  stopped" in stopped.stdout
