import json
import os
from pathlib import Path
from typing import cast

import apsw
import attrs
import msgpack
import pytest

from shardline.actors.errors import Code
from shardline.runtime.command.live import read_live
from shardline.runtime.command.looking import looking
from shardline.storage.sqlite.lock import OwnerLock
from shardline.storage.sqlite.overview import overview
from shardline.storage.sqlite.owner import Owner
from tests.kits.operated import make_store, operate, owner_of


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "bot.db"
    make_store(path, texts=("good", "bad", "good", "bad", "good"))
    return path


def status(store: Path, *names: str) -> object:
    """What stands under these names in the JSON object."""
    ended = operate("status", "--store", store, "--json")
    assert ended.exit_code == 0
    assert ended.stdout.count("\n") == 1
    found: object = json.loads(ended.stdout)
    for name in names:
        assert isinstance(found, dict)
        found = cast("dict[str, object]", found)[name]
    return found


def values(store: Path, of: str, *names: str) -> tuple[object, ...]:
    return tuple(status(store, of, name) for name in names)


def write(store: Path, statement: str, *bindings: int | str | bytes) -> None:
    database = apsw.Connection(str(store))
    database.execute(statement, bindings)
    database.close()


def test_it_counts_what_is_there(store: Path) -> None:
    assert status(store, "inbox") == {
        "queued": 0, "running": 0, "failed": 0, "done": 3, "dead": 2, "parked": 0, "refused": 0,
        "purged": 0,
    }  # fmt: skip
    assert status(store, "outbox") == {
        "ready": 0, "flying": 0, "failed": 0, "uncertain": 1, "dead": 1, "sent": 1, "purged": 0,
    }  # fmt: skip
    assert status(store, "dead") == [
        {"kind": "in", "code": "HANDLER_FAILED", "own_code": "x.bad", "count": 2},
        {"kind": "out", "code": "RECIPIENT_BLOCKED", "own_code": None, "count": 1},
    ]
    assert status(store, "live", "stale") is True
    assert status(store, "oldest", "message") is None
    assert status(store, "oldest", "uncertain", "id") == "out-1"


def test_it_names_the_oldest_that_waits(store: Path) -> None:
    write(store, "UPDATE inbox SET status = 'queued', accepted_at = 1000000 WHERE id = 3")

    assert status(store, "oldest", "message", "id") == "in-3"
    assert status(store, "oldest", "message", "state") == "queued"
    assert status(store, "oldest", "message", "since") == "1970-01-01T00:00:01Z"


def test_it_tells_what_to_do_about_what_waits_for_a_person(store: Path) -> None:
    said = operate("status", "--store", store).stdout

    assert (
        "1 uncertain: look into the chat, then `shardline outbox resolve out-1 --sent|--resend|--dead`"
        in said
    )
    assert "3 dead: `shardline dlq list`" in said
    assert max(map(len, said.splitlines())) <= 110


def test_it_says_who_owns_the_store(store: Path) -> None:
    before = values(store, "owner", "held", "clean")
    with owner_of(store) as pid:
        during = values(store, "owner", "held", "holder_pid", "pid", "closed_at")
    after = values(store, "owner", "held", "pid", "clean")

    assert before == ("no", True)
    assert during == ("yes", pid, pid, None)
    assert after == ("no", pid, True)


def test_an_owner_that_was_killed_is_told_from_one_that_closed(store: Path) -> None:
    write(store, "UPDATE instance SET closed_at = NULL, clean = 0")

    assert status(store, "owner", "clean") is False
    assert "ended without closing" in operate("status", "--store", store).stdout
    say(store, {"at_us": 1_000_000, "health": {"state": "ok", "reasons": []}})
    health = operate("status", "--store", store, "--health")
    assert health.exit_code == 1
    assert health.stdout.split()[:2] == ["health", "crashed"]
    assert "nothing accepted is lost" in health.stdout


def test_a_bot_that_was_killed_before_it_said_anything_is_called_crashed(store: Path) -> None:
    """`stale` would send whoever is woken to look for a process."""
    write(store, "DELETE FROM fact WHERE key = 'instance_status'")
    write(store, "UPDATE instance SET closed_at = NULL, clean = 0")
    health = operate("status", "--store", store, "--health")
    assert health.exit_code == 1
    assert health.stdout.split()[:2] == ["health", "crashed"]
    assert status(store, "live") is None

    lock = OwnerLock.take(store)
    lock.tell(Code.STORE_FULL)
    health = operate("status", "--store", store, "--health")
    doctor = operate("doctor", "--store", store)
    lock.release()
    if Path("/proc/locks").exists():
        assert health.stdout.split()[:2] == ["health", "failing"]
        assert "STORE_FULL" in health.stdout
        assert "STORE_FULL" in doctor.stdout


def test_what_a_crashed_bot_said_last_is_not_said_of_now(store: Path) -> None:
    write(store, "UPDATE instance SET closed_at = NULL, clean = 0")
    reasons = [{"word": "intake_paused", "state": "degraded", "text": "they wait"}]
    say(store, {"at_us": 1_000_000, "health": {"state": "degraded", "reasons": reasons}})
    told = operate("status", "--store", store, "--health").stdout
    assert told.index("health  crashed") < told.index("the last that it said:") < told.index("they wait")


def test_a_bot_that_was_stopped_is_not_called_ill(store: Path) -> None:
    reasons = [{"word": "intake", "state": "degraded", "text": "paused"}]
    say(
        store,
        {"at_us": 1_000_000, "health": {"state": "degraded", "reasons": reasons}, "channels": {"fake": {}}},
    )
    people = operate("status", "--store", store).stdout
    health = operate("status", "--store", store, "--health", "--json")

    assert "health  stopped" in people
    assert "the next start goes on where it was" in people
    assert "channels (before it stopped)" in people
    assert "paused" not in people.split("health")[1]
    assert health.exit_code == 1
    assert json.loads(health.stdout)["state"] == "stopped"


def say(store: Path, said: object) -> None:
    write(
        store,
        "INSERT OR REPLACE INTO fact (namespace, key, value, updated_at) VALUES ('core', 'instance_status', ?, 1)",
        msgpack.packb(said),
    )


def test_what_an_owner_said_long_ago_is_stale(store: Path) -> None:
    say(store, {"at_us": 1_000_000, "tokens_free": 7, "\x1b[2J": "\x1b[31m", "counters": {"sent": 3}})
    people = operate("status", "--store", store).stdout

    assert status(store, "live", "stale") is True
    assert status(store, "live", "said") == {
        "at_us": 1_000_000,
        "tokens_free": 7,
        "\x1b[2J": "\x1b[31m",
        "counters": {"sent": 3},
    }
    assert "(before it stopped)" in people
    assert "tokens_free" in people
    assert "sent=3" in people
    assert "\x1b" not in people


def test_what_an_owner_said_before_the_clock_was_set_back_is_stale(store: Path) -> None:
    """An owner that hangs since then would look well until the clock has come as far again."""
    with looking(store) as look:
        found = overview(look)
    now_us = 1_000_000_000_000
    found = attrs.evolve(found, owner=Owner(held="yes", holder_pid=1, last=None))

    def of(at_us: int) -> tuple[float | None, bool]:
        live = read_live(attrs.evolve(found, live=msgpack.packb({"at_us": at_us})), now_us)
        assert live is not None
        return live.age_s, live.is_stale

    assert of(now_us + 3_600_000_000) == (None, True)
    # A little ahead it is news: clocks are always a little set.
    assert of(now_us + 9_000_000) == (0, False)
    assert of(now_us - 9_000_000) == (9, False)
    assert of(now_us - 16_000_000) == (16, True)


@pytest.mark.parametrize("said", [{"at_us": "now"}, {}, [1], "text", None])
def test_an_odd_live_fact_is_no_trouble(store: Path, said: object) -> None:
    say(store, said)

    assert operate("status", "--store", store).exit_code == 0
    if isinstance(said, dict):
        assert status(store, "live", "stale") is True
    else:
        assert status(store, "live") is None


def test_a_store_without_rows_is_fine(tmp_path: Path) -> None:
    make_store(tmp_path / "bot.db", texts=())

    assert set(
        operate("status", "--store", tmp_path / "bot.db").stdout.split("messages\n")[1].split()[8:16]
    ) == {"0"}
    assert status(tmp_path / "bot.db", "last_transition_at") is None
    assert operate("status", "--store", tmp_path / "bot.db").exit_code == 0


def test_the_store_is_found_through_a_linked_folder(store: Path, tmp_path: Path) -> None:
    os.symlink(store.parent, tmp_path / "linked")

    assert operate("status", "--store", tmp_path / "linked" / "bot.db").exit_code == 0
