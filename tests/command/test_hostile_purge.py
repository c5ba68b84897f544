"""What is purged is gone, also from where nobody looks, and a decision keeps no text once it has ended."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import click.testing
import pytest

from shardline import BusError, Code
from shardline.runtime.control.hands import StoreHands
from shardline.runtime.control.verbs import PublishMessage
from shardline.storage.commands import Commit
from tests.kits.controlled import decide, make_dead, query, run_bot
from tests.kits.operated import make_store, operate
from tests.kits.words import make_message, refused, with_text

SECRET = "the-words-of-a-person-who-wants-them-gone"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Message 2 is dead, send 1 uncertain, send 2 dead."""
    path = tmp_path / "bot.db"
    make_store(path)
    return path


def run(store: Path, *arguments: str) -> click.testing.Result:
    return operate(*arguments, "--store", store)


def test_whoever_is_asked_about_a_purge_is_told_how_much_it_takes(store: Path) -> None:
    ended = run(store, "dlq", "purge", "--older-than", "0s")

    assert "1 message" in ended.stderr
    assert "1 send" in ended.stderr


@pytest.mark.parametrize("padding", [0, 60_000])
def test_what_is_purged_is_not_left_between_the_rows(tmp_path: Path, padding: int) -> None:
    path = tmp_path / "bot.db"
    make_store(path, texts=("good", f"bad {'.' * padding} {SECRET} {'.' * padding}", "good"))
    assert SECRET.encode() in path.read_bytes()
    assert run(path, "dlq", "purge", "--older-than", "0s", "--yes").exit_code == 0

    left = [file.name for file in tmp_path.iterdir() if SECRET.encode() in file.read_bytes()]
    assert left == []


def test_what_is_purged_is_not_left_in_the_decision_that_published_it(tmp_path: Path) -> None:
    path = tmp_path / "bot.db"
    make_dead(path, 1)
    assert run(path, "publish", "--key", "fake:1", "--text", SECRET, "--channel", "fake").exit_code == 0
    run_bot(path)
    assert run(path, "dlq", "purge", "--older-than", "0s", "--yes").stdout.startswith("purged 2 messages")

    ((args,),) = query(path, "SELECT args FROM control WHERE verb = 'publish'")
    payload = json.loads(str(args)).get("message", {}).get("payload_base64", "")
    assert SECRET.encode() not in base64.urlsafe_b64decode(payload + "==")


def test_a_purge_that_somebody_disturbs_counts_all_that_it_emptied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "bot.db"
    make_dead(path, 6)
    commit = StoreHands.commit
    calls: list[int] = []

    async def disturbed(hands: StoreHands, shard: int, part: Commit) -> None:
        calls.append(shard)
        if len(calls) == 2:
            raise BusError(Code.STALE_CLAIM, "somebody was quicker")
        await commit(hands, shard, part)

    monkeypatch.setattr(StoreHands, "commit", disturbed)
    ended = run(path, "dlq", "purge", "--older-than", "0s", "--yes")

    assert query(path, "SELECT count(*) FROM inbox WHERE status = 'purged'") == [(6,)]
    assert ended.stdout == "purged 6 messages and 0 sends\n"


def test_what_was_published_is_known_by_its_id_when_its_text_is_gone(store: Path) -> None:
    first = PublishMessage(make_message())
    other = PublishMessage(with_text(first.message, "another"))
    done = decide(store, first, control_id="c1")

    assert decide(store, first, control_id="c1") == done
    with refused(Code.IDENTITY_MISMATCH):
        decide(store, other, control_id="c1")


def test_a_refused_publish_keeps_no_text_either(store: Path) -> None:
    ended = run(store, "publish", "--key", "fake:1", "--text", SECRET, "--outbound")

    assert ended.exit_code == 1
    ((args,),) = query(store, "SELECT args FROM control")
    assert json.loads(str(args))["message"]["conversation_key"] == "fake:1"
    assert "payload_base64" not in str(args)
