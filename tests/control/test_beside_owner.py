"""Decisions from other processes beside a live owner: carried out once, in its commits."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack
from pathlib import Path

import apsw
import attrs
import pytest
import trio

from shardline import BusMessage, Context, Runtime, Topology
from shardline.actors.codec import unpack_plain
from shardline.runtime.control.client import find_control
from shardline.runtime.control.verbs import PublishMessage, Purge, Requeue, RowRef
from shardline.testing import FakeChannel
from tests.kits.controlled import (
    SENDER,
    decide,
    make_dead,
    mortal_bot,
    owner_process,
    query,
    stop_between_commits,
)
from tests.kits.forked import Script, start_forked
from tests.kits.words import make_message

FIRST = Requeue((RowRef("in", 1),))


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "bot.db"
    make_dead(path, 5)
    return path


def test_the_owner_carries_it_out_and_handles_the_message(store: Path) -> None:
    async def main() -> None:
        channel = FakeChannel()
        async with Runtime.open(mortal_bot(), store=store, adapters=[channel]) as runtime:
            with trio.fail_after(20):
                result = await trio.to_thread.run_sync(decide, store, FIRST)
                assert result.status == "done"
                await runtime.wait_until(lambda: runtime.counters.get("handled") == 1 and runtime.is_quiet)
                again = await trio.to_thread.run_sync(decide, store, FIRST)
                assert (again.status, again.code) == ("refused", "INVALID_TRANSITION")
                purged = await trio.to_thread.run_sync(decide, store, Purge(2**62))
                assert purged.values["purged"] == 4
        assert [out.text for out in channel.delivered] == ["re text 0"]

    trio.run(main)
    assert query(store, "SELECT status, generation FROM inbox WHERE id = 1") == [("done", 1)]


def test_two_processes_requeue_the_same_row_at_once_and_one_wins(store: Path) -> None:
    with owner_process(store), ExitStack() as stack:
        senders = [stack.enter_context(start_forked(Script(SENDER), str(store), "in-1")) for _ in range(2)]
        # The end of its input is the word to go.
        for sender in senders:
            sender.stdin.close()
        answers = [sender.communicate(30)[0].split() for sender in senders]

    assert sorted(answers) == [["done", "None"], ["refused", "INVALID_TRANSITION"]]
    assert query(store, "SELECT generation FROM inbox WHERE id = 1") == [(1,)]


def test_an_owner_that_stands_still_leaves_it_waiting_and_does_it_later(store: Path) -> None:
    with owner_process(store) as owner:
        stop_between_commits(store, owner.pid)
        try:
            waiting = decide(store, FIRST, timeout_s=0.3)
            assert (waiting.status, waiting.values) == ("waiting", {})
        finally:
            os.kill(owner.pid, signal.SIGCONT)
        done = decide(store, FIRST, control_id=waiting.id)

    assert done.status == "done"
    assert query(store, "SELECT generation FROM inbox WHERE id = 1") == [(1,)]


def test_an_owner_that_dies_leaves_it_to_whoever_waits(store: Path) -> None:
    with owner_process(store) as owner:
        stop_between_commits(store, owner.pid)
        waiting = decide(store, FIRST, timeout_s=0.1)
        owner.kill()
        owner.wait(60)
        done = decide(store, FIRST, control_id=waiting.id)

    assert done.status == "done"
    assert query(store, "SELECT generation FROM inbox WHERE id = 1") == [(1,)]


def test_a_record_that_says_nonsense_is_refused_and_the_next_is_carried_out(store: Path) -> None:
    database = apsw.Connection(str(store))
    database.execute(
        "INSERT INTO control (id, verb, args, actor, created_at, status)"
        " VALUES ('odd', 'explode', '{', 'me', 0, 'waiting')"
    )
    database.close()
    with owner_process(store):
        assert decide(store, FIRST).status == "done"

    odd = find_control(store, "odd")
    assert (odd.status, odd.code) == ("refused", "INVALID_MESSAGE")


@pytest.mark.parametrize("column", ["id", "verb", "args", "actor"])
def test_a_record_that_is_no_text_is_refused_and_the_owner_lives(store: Path, column: str) -> None:
    """A foreign writer can leave bytes that are no UTF-8; they must not end the runtime at each start."""
    row = {"id": "'odd'", "verb": "'requeue'", "args": """'{"rows": ["in-2"]}'""", "actor": "'me'"}
    row[column] = "CAST(x'ff22' AS TEXT)"
    database = apsw.Connection(str(store))
    database.execute(
        f"INSERT INTO control ({', '.join(row)}, created_at, status) VALUES ({', '.join(row.values())}, 0, 'waiting')"
    )
    database.close()
    with owner_process(store):
        assert decide(store, FIRST).status == "done"

    # Who asked and under which name is for the record; the others say what is to be done.
    found = query(store, "SELECT status, code FROM control WHERE n = 1")
    assert found == [("refused", "INVALID_MESSAGE") if column in {"verb", "args"} else ("done", None)]


def test_a_publish_takes_no_token_so_nothing_behind_it_waits(store: Path) -> None:
    topology = Topology()
    release = trio.Event()

    @topology.on("chat.message")
    async def hold(ctx: Context, message: BusMessage) -> None:
        await release.wait()

    message = attrs.evolve(
        make_message(), channel="fake", conversation_key="fake:pub", participant_key=None, raw=None
    )

    async def main() -> None:
        channel = FakeChannel()
        async with Runtime.open(topology, store=store, adapters=[channel], max_inflight=1) as runtime:
            with trio.fail_after(30):
                await channel.say("busy", "holds the only token")
                assert runtime.status().tokens_free == 0
                results = [
                    await trio.to_thread.run_sync(decide, store, verb)
                    for verb in (PublishMessage(message), FIRST)
                ]
                assert [result.status for result in results] == ["done", "done"]
                assert runtime.status().tokens_free == 0
                release.set()
                await runtime.wait_until(lambda: runtime.is_quiet)
                assert runtime.status().tokens_free == 1

    trio.run(main)


def test_the_owner_says_how_it_stands(store: Path) -> None:
    with owner_process(store) as owner:
        decide(store, FIRST)
        ((value,),) = query(store, "SELECT value FROM fact WHERE namespace = 'core'")
        assert isinstance(value, bytes)
        said = unpack_plain(value, limit_bytes=65_536)

        assert isinstance(said, dict)
        assert said["pid"] == owner.pid
        assert said["running_turns"] == 0
        assert said["lanes"] in range(20)
        assert said["tokens_free"] == 1_024
        assert said["edges"] == {"fake": "running, 0 crashes"}
