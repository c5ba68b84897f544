"""Field entry 35 with real signals: a stop loses nothing, counts no crash, claims nothing more, and always ends.

`tests/runtime/test_stop.py` has the same by a clock that jumps.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import apsw
import attrs
import pytest

from tests.kits.forked import Running, Script, start_forked
from tests.kits.reaped import reaped

BOT = Path(__file__).with_name("stop_bot.py")
STOPPING = "reads no more\n"


@attrs.define
class Bot:
    """A running bot; `log` has the events of its standard error once it has ended."""

    process: subprocess.Popen[str] | Running
    log: list[dict[str, object]] = attrs.field(factory=list[dict[str, object]])
    rest: str = ""

    def until_turns(self, turns: int, *, sends: int = 0) -> list[str]:
        """Wait until so many turns have begun and so many answers are sent; what the turns say."""
        assert self.process.stdout is not None
        begun: list[str] = []
        while len(begun) < turns or sends > 0:
            line = self.process.stdout.readline()
            assert line, "it has ended"
            if line == "sent\n":
                sends -= 1
            else:
                begun.append(line)
        return begun

    def until_stopping(self) -> None:
        """Wait until the first signal is taken."""
        assert self.process.stdout is not None
        line = ""
        while line != STOPPING:
            line = self.process.stdout.readline()
            assert line, "it has ended"

    def signal(self, *numbers: signal.Signals) -> None:
        for number in numbers:
            self.process.send_signal(number)

    def end(self, timeout_s: float = 40) -> int:
        """Wait for its end; its exit code."""
        out, err = self.process.communicate(timeout=timeout_s)
        words = "".join(line for line in err.splitlines(True) if not line.startswith("{"))
        self.rest = out.replace(STOPPING, "") + words
        self.log = [json.loads(line) for line in err.splitlines() if line.startswith("{")]
        return self.process.returncode

    def event(self, name: str) -> dict[str, object] | None:
        return next((event for event in self.log if event["event"] == name), None)


@contextmanager
def bot(
    folder: Path, *, grace_s: float = 10, prefix: Sequence[str] = (), **environment: str
) -> Generator[Bot]:
    """Run the bot by the command; with a prefix in an interpreter of its own, as people do."""
    command = ["run", str(BOT), "--store", "bot.db", "--json-logs"]
    command += ["--grace-s", str(grace_s), "--durability", "normal"]
    if not prefix:
        with start_forked("shardline", *command, folder=folder, environment=environment) as forked:
            yield Bot(forked)
        return
    process = subprocess.Popen(
        [*prefix, sys.executable, "-m", "shardline", *command],
        cwd=folder,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with reaped(process):
        yield Bot(process)


def query(folder: Path, statement: str) -> list[tuple[object, ...]]:
    database = apsw.Connection(str(folder / "bot.db"))
    try:
        assert database.pragma("integrity_check") == "ok"
        return cast("list[tuple[object, ...]]", database.execute(statement).fetchall())
    finally:
        database.close()


def statuses(folder: Path) -> dict[object, object]:
    return {row[0]: row[1] for row in query(folder, "SELECT status, count(*) FROM inbox GROUP BY status")}


def counted(folder: Path) -> set[tuple[object, ...]]:
    """What any message was charged with: crashes, failures, blames."""
    return set(query(folder, "SELECT DISTINCT crashes, failures, blames FROM inbox"))


def was_clean(folder: Path) -> bool:
    return query(folder, "SELECT clean FROM instance ORDER BY id DESC LIMIT 1") == [(1,)]


def finish(folder: Path, total: int = 10) -> Bot:
    """The same store at once again, to the end: every message is handled, and each answer sent once, in order."""
    done = statuses(folder).get("done", 0)
    settled = query(
        folder,
        "SELECT count(*) FROM outbox WHERE status = 'sent' OR in_flight OR uncertain_since IS NOT NULL",
    )
    conversations = query(folder, "SELECT count(DISTINCT conversation_key) FROM inbox")[0][0]
    messages = total // cast("int", conversations)
    with bot(folder, TALK=f"{conversations}x{messages}") as again:
        again.until_turns(total - cast("int", done), sends=total - cast("int", settled[0][0]))
        again.signal(signal.SIGTERM)
        assert again.end() == 0, again.rest
    assert statuses(folder) == {"done": total}
    uncertain = query(folder, "SELECT count(*) FROM outbox WHERE uncertain_since IS NOT NULL")[0][0]
    found = again.event("outbox.found_uncertain")
    assert (found["uncertain"] if found else 0) == uncertain
    lines = (folder / "sink").read_text().splitlines()
    assert set(Counter(lines).values()) == {1}
    # Nobody knows of an uncertain one whether it is in the sink.
    assert total - cast("int", uncertain) <= len(lines) <= total
    for address in {line.split()[0] for line in lines}:
        numbers = [int(line.split()[1]) for line in lines if line.split()[0] == address]
        assert numbers == sorted(numbers)
    return again


def test_handlers_end_inside_the_grace_time_and_nothing_new_is_claimed(tmp_path: Path) -> None:
    """Five handlers of 3 s, grace 5 s."""
    with bot(tmp_path, grace_s=5, HOW="sleep:3") as running:
        begun = running.until_turns(5)
        running.signal(signal.SIGTERM)
        assert running.end() == 0

    assert {line.split()[2] for line in begun} == {"0"}
    assert running.rest == "sent\n" * 5
    assert statuses(tmp_path) == {"done": 5, "queued": 5}
    assert counted(tmp_path) == {(0, 0, 0)}
    assert was_clean(tmp_path)
    assert finish(tmp_path).event("runtime.recovered") is None


@pytest.mark.parametrize(
    ("grace_s", "work_s", "signals"),
    [
        pytest.param(1, 600, [signal.SIGTERM], id="the grace time is over"),
        pytest.param(300, 600, [signal.SIGINT, signal.SIGINT], id="a second Ctrl-C"),
        pytest.param(300, 600, [signal.SIGTERM, signal.SIGINT], id="two different ones"),
    ],
)
def test_handlers_that_are_cut_off_go_back_in_line_and_the_exit_code_tells(
    tmp_path: Path, grace_s: float, work_s: float, signals: Sequence[signal.Signals]
) -> None:
    with bot(tmp_path, grace_s=grace_s, HOW=f"sleep:{work_s}") as running:
        running.until_turns(5)
        running.signal(signals[0])
        # The same signal twice at one moment would come as one.
        running.until_stopping()
        running.signal(*signals[1:])
        assert running.end() == 3

    assert running.rest == ""
    assert statuses(tmp_path) == {"queued": 10}
    assert query(tmp_path, "SELECT sum(claim) FROM inbox") == [(5,)]
    assert counted(tmp_path) == {(0, 0, 0)}
    assert was_clean(tmp_path)
    assert finish(tmp_path).event("runtime.recovered") is None


def test_a_closed_terminal_stops_it_too_unless_it_is_to_live_on(tmp_path: Path) -> None:
    for prefix in ((), ("nohup",)):
        folder = tmp_path / str(len(prefix))
        folder.mkdir()
        with bot(folder, HOW="sleep:0.2", prefix=prefix, TALK="1x1") as running:
            running.until_turns(1)
            running.signal(signal.SIGHUP)
            if prefix:
                with pytest.raises(subprocess.TimeoutExpired):
                    running.process.wait(0.5)
                running.signal(signal.SIGTERM)
            assert running.end() == 0
        assert statuses(folder) == {"done": 1}
        assert was_clean(folder)


@pytest.mark.parametrize("signals", [1, 2])
def test_a_handler_in_a_thread_that_never_ends_does_not_keep_the_process(
    tmp_path: Path, signals: int
) -> None:
    """Its message goes back in line: no crash is counted, though the store was not closed."""
    linger_s = "0.3" if signals == 1 else "300"
    with bot(tmp_path, grace_s=0.2, HOW="thread", TALK="2x1", LINGER_S=linger_s) as running:
        running.until_turns(2)
        running.signal(signal.SIGTERM)
        if signals == 2:
            running.until_stopping()
            running.signal(signal.SIGTERM)
        assert running.end() == 3

    stuck = running.event("runtime.left_stuck")
    assert stuck is not None
    assert (stuck["turns"], stuck["sends"]) == (2, 0)
    assert statuses(tmp_path) == {"queued": 2}
    assert counted(tmp_path) == {(0, 0, 0)}
    assert finish(tmp_path, 2).event("runtime.recovered") is None


def test_an_adapter_that_never_ends_takes_no_time_from_the_handlers(tmp_path: Path) -> None:
    with bot(tmp_path, grace_s=20, HOW="sleep:1.5", TALK="3x1", EDGE="stuck", LINGER_S="0.3") as running:
        running.until_turns(3)
        running.signal(signal.SIGTERM)
        assert running.end() == 3

    assert running.event("runtime.left_stuck") is not None
    assert statuses(tmp_path) == {"done": 3}
    assert query(tmp_path, "SELECT count(*) FROM outbox WHERE status = 'sent'") == [(3,)]


def strike_thrice(process: subprocess.Popen[str] | Running) -> Bot:
    """Ctrl-C to a bot whose handler blocks its loop: two of them end nothing, and then a third one."""
    running = Bot(process)
    assert running.until_turns(1) == ["turn\n"]
    for _ in range(2):
        running.signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.3)
    running.signal(signal.SIGINT)
    return running


def test_the_third_signal_ends_a_process_whose_loop_is_blocked(tmp_path: Path) -> None:
    """Nobody else can: the loop never looks. It counts as a crash, and the next start says so."""
    with bot(tmp_path, HOW="loop", TALK="1x1") as running:
        running.until_turns(1)
        for _ in range(2):
            running.signal(signal.SIGTERM)
            with pytest.raises(subprocess.TimeoutExpired):
                running.process.wait(0.3)
        running.signal(signal.SIGTERM)
        assert running.end() == 3

    assert "a third signal" in running.rest
    assert statuses(tmp_path) == {"running": 1}
    recovered = finish(tmp_path, 1).event("runtime.recovered")
    assert recovered is not None
    wanted = {"claimed": 1, "requeued": 1, "suspects": 0, "crash_looped": 0, "flying": 0}
    assert {name: recovered[name] for name in wanted} == wanted


OWN_PROGRAM = """
import structlog, sys, trio
from shardline import Runtime, Topology
from shardline.testing import FakeChannel
structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
topology = Topology()
@topology.on("chat.message")
async def answer(ctx, message):
    print("turn", flush=True)
    while True:
        pass
async def main():
    channel = FakeChannel()
    async with Runtime.open(topology, store=sys.argv[1], adapters=[channel]) as runtime:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(channel.say, "a", "hi")
            await runtime.serve(signals=True)
trio.run(main)
"""


def test_the_third_signal_ends_a_program_of_ones_own_too(tmp_path: Path) -> None:
    with start_forked(Script(OWN_PROGRAM), str(tmp_path / "bot.db")) as process:
        running = strike_thrice(process)
        assert running.end() == 3
    assert statuses(tmp_path) == {"running": 1}


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_stop_under_load_loses_nothing(tmp_path: Path, is_killed: bool) -> None:
    """Also where SIGKILL follows SIGTERM at once."""
    conversations, messages = 40, 25
    with bot(tmp_path, HOW="sleep:0.002", TALK=f"{conversations}x{messages}") as running:
        running.until_turns(200)
        running.signal(signal.SIGTERM)
        if is_killed:
            running.signal(signal.SIGKILL)
        assert running.end() == (-signal.SIGKILL if is_killed else 0)

    if not is_killed:
        assert statuses(tmp_path).keys() <= {"done", "queued"}
        assert counted(tmp_path) == {(0, 0, 0)}
        assert query(
            tmp_path, "SELECT count(*) FROM outbox WHERE in_flight OR uncertain_since IS NOT NULL"
        ) == [(0,)]
        assert was_clean(tmp_path)
    again = finish(tmp_path, conversations * messages)
    assert is_killed or again.event("runtime.recovered") is None


@pytest.mark.parametrize("is_read", [True, False], ids=["full", "closed"])
def test_the_third_signal_ends_it_where_nobody_reads_its_log(tmp_path: Path, is_read: bool) -> None:
    """A program that hangs because its log is full is the very one that is to be ended like this."""
    reader, writer = os.pipe()
    if is_read:
        os.set_blocking(writer, False)
        with pytest.raises(BlockingIOError):
            while True:
                os.write(writer, b"a" * 65_536)
        os.set_blocking(writer, True)
    else:
        os.close(reader)
    process = subprocess.Popen(
        [sys.executable, "-c", OWN_PROGRAM, str(tmp_path / "bot.db")],
        stdout=subprocess.PIPE,
        stderr=writer,
        text=True,
    )
    os.close(writer)
    with reaped(process):
        strike_thrice(process)
        assert process.wait(30) == 3
    if is_read:
        os.close(reader)
