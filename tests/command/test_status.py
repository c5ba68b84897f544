import json
import os
from pathlib import Path

import apsw
import msgpack
import pytest

from tests.kits.operated import make_store, operate, owner_of


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "bot.db"
    make_store(path, texts=("good", "bad", "good", "bad", "good"))
    return path


def status(store: Path) -> dict[str, dict[str, object]]:
    ended = operate("status", "--store", store, "--json")
    assert ended.exit_code == 0
    assert ended.stdout.count("\n") == 1
    found: dict[str, dict[str, object]] = json.loads(ended.stdout)
    return found


def write(store: Path, statement: str, *bindings: int | str | bytes) -> None:
    database = apsw.Connection(str(store))
    database.execute(statement, bindings)
    database.close()


def test_it_counts_what_is_there(store: Path) -> None:
    found = status(store)

    assert found["inbox"] == {
        "queued": 0,
        "running": 0,
        "failed": 0,
        "done": 3,
        "dead": 2,
        "parked": 0,
        "refused": 0,
    }
    assert found["outbox"] == {"ready": 0, "flying": 0, "failed": 0, "uncertain": 1, "dead": 1, "sent": 1}
    assert found["dead"] == [
        {"kind": "in", "code": "HANDLER_FAILED", "own_code": "x.bad", "count": 2},
        {"kind": "out", "code": "RECIPIENT_BLOCKED", "own_code": None, "count": 1},
    ]
    assert found["live"] is None
    assert found["oldest"]["message"] is None
    assert found["oldest"]["uncertain"]["id"] == "out-1"  # type: ignore[index]


def test_it_names_the_oldest_that_waits(store: Path) -> None:
    write(store, "UPDATE inbox SET status = 'queued', accepted_at = 1000000 WHERE id = 3")
    oldest = status(store)["oldest"]["message"]

    assert isinstance(oldest, dict)
    assert (oldest["id"], oldest["state"], oldest["since"]) == ("in-3", "queued", "1970-01-01T00:00:01Z")


def test_it_tells_what_to_do_about_what_waits_for_a_person(store: Path) -> None:
    said = operate("status", "--store", store).stdout

    assert (
        "1 uncertain: look into the chat, then `shardline outbox resolve out-1 --sent|--resend|--dead`"
        in said
    )
    assert "3 dead: `shardline dlq list`" in said
    assert max(map(len, said.splitlines())) <= 110


def test_it_says_who_owns_the_store(store: Path) -> None:
    before = status(store)["owner"]
    with owner_of(store) as pid:
        during = status(store)["owner"]
    after = status(store)["owner"]

    assert (before["held"], before["clean"]) == ("no", True)
    assert (during["held"], during["holder_pid"], during["pid"], during["closed_at"]) == (
        "yes",
        pid,
        pid,
        None,
    )
    assert (after["held"], after["pid"], after["clean"]) == ("no", pid, True)


def test_an_owner_that_was_killed_is_told_from_one_that_closed(store: Path) -> None:
    write(store, "UPDATE instance SET closed_at = NULL, clean = 0")

    assert status(store)["owner"]["clean"] is False
    assert "ended without closing" in operate("status", "--store", store).stdout


def say(store: Path, said: object) -> None:
    write(
        store,
        "INSERT OR REPLACE INTO fact (namespace, key, value, updated_at) VALUES ('core', 'instance_status', ?, 1)",
        msgpack.packb(said),
    )


def test_what_an_owner_said_long_ago_is_stale(store: Path) -> None:
    say(store, {"at_us": 1_000_000, "tokens_free": 7, "\x1b[2J": "\x1b[31m", "counters": {"sent": 3}})
    live = status(store)["live"]
    people = operate("status", "--store", store).stdout

    assert live["stale"] is True
    assert live["said"] == {
        "at_us": 1_000_000,
        "tokens_free": 7,
        "\x1b[2J": "\x1b[31m",
        "counters": {"sent": 3},
    }
    assert "(stale)" in people
    assert "tokens_free" in people
    assert "sent=3" in people
    assert "\x1b" not in people


@pytest.mark.parametrize("said", [{"at_us": "now"}, {}, [1], "text", None])
def test_an_odd_live_fact_is_no_trouble(store: Path, said: object) -> None:
    say(store, said)

    assert operate("status", "--store", store).exit_code == 0
    live = status(store)["live"]
    assert live is None or live["stale"] is True


def test_a_store_without_rows_is_fine(tmp_path: Path) -> None:
    make_store(tmp_path / "bot.db", texts=())
    found = status(tmp_path / "bot.db")

    assert sum(found["inbox"].values()) == 0  # type: ignore[arg-type]
    assert found["last_transition_at"] is None
    assert operate("status", "--store", tmp_path / "bot.db").exit_code == 0


def test_the_store_is_found_through_a_linked_folder(store: Path, tmp_path: Path) -> None:
    os.symlink(store.parent, tmp_path / "linked")

    assert operate("status", "--store", tmp_path / "linked" / "bot.db").exit_code == 0
