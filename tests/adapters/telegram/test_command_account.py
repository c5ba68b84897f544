"""`shardline telegram` and whose store it is; and the variable that its token comes from."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import cast

import pytest

from tests.adapters.telegram.samples import TOKEN
from tests.adapters.telegram.test_command import ENVIRON, LIMIT_S, ask, bot, sim, status
from tests.kits.forked import run_forked

OTHER = "77:another_bots-token"
OTHERS = {**ENVIRON, "SHARDLINE_TELEGRAM_TOKEN": OTHER}
ME = {"id": 77, "is_bot": True, "first_name": "Other", "username": "other_bot"}
NAME = "MY_BOTS_TOKEN"


def made_folder(path: Path) -> Path:
    path.mkdir()
    return path


def test_a_store_changes_hands_only_where_it_is_asked_for(tmp_path: Path) -> None:
    """One bot has answered, and leaves an answer unsent; another one is refused, and then takes all of it over."""
    with sim(made_folder(tmp_path / "one"), {}) as base, bot(tmp_path, base) as process:
        ask(base, "say", {"chat": 5, "text": "hi"})
        ask(base, "wait", {"sent": 1})
        # The token is taken back: sending stops, and rows stay.
        ask(base, "fault", {"method": "sendMessage", "kind": "refuse", "times": -1, "code": 401})
        ask(base, "say", {"chat": 6, "text": "and me"})
        ask(base, "wait", {"confirmed": True})
        process.send_signal(signal.SIGTERM)
        process.wait(LIMIT_S)
    before = status(tmp_path)
    assert (before["inbox"]["done"], before["outbox"]["sent"]) == (2, 1)
    assert sum(before["outbox"].values()) == 2

    with sim(made_folder(tmp_path / "other"), {"me": ME}) as base:
        ask(base, "say", {"chat": 7, "text": "hello"}, token=OTHER)
        store = ["--store", str(tmp_path / "bot.db"), "--api-base", base]
        refused = run_forked("shardline", "telegram", *store, environment=OTHERS, timeout=LIMIT_S)
        assert refused.returncode == 1
        assert "STORE_MISMATCH" in refused.stderr
        assert "the store belongs to the bot 4200, the token to 77" in refused.stderr
        assert "--adopt-account" in refused.stderr
        assert OTHER.partition(":")[2] not in refused.stderr
        same = status(tmp_path)
        assert (same["inbox"], same["outbox"]) == (before["inbox"], before["outbox"])

        with bot(tmp_path, base, "--adopt-account", environ=OTHERS) as process:
            ask(base, "wait", {"sent": 2}, token=OTHER)
            process.send_signal(signal.SIGTERM)
            assert process.wait(LIMIT_S) == 0
        after = status(tmp_path)
        assert (after["inbox"]["done"], after["outbox"]["sent"]) == (3, 3)
        assert sum(after["outbox"].values()) == 3

        # It is for good: the flag is needed no more.
        with bot(tmp_path, base, environ=OTHERS) as process:
            ask(base, "say", {"chat": 7, "text": "again"}, token=OTHER)
            ask(base, "wait", {"sent": 3}, token=OTHER)
            process.send_signal(signal.SIGTERM)
            assert process.wait(LIMIT_S) == 0
        told = ask(base, "calls", {}, token=OTHER)

    calls = cast("list[dict[str, dict[str, object]]]", told["calls"])
    texts = [text for one in calls if (text := one["fields"].get("text")) is not None]
    assert {"1: and me", "1: hello"} == set(texts[:2])
    assert texts[2:] == ["2: again"]


def test_the_token_comes_from_the_variable_that_is_named(tmp_path: Path) -> None:
    environ = {**ENVIRON, "SHARDLINE_TELEGRAM_TOKEN": "not looked at", NAME: f" {TOKEN}\n"}
    with sim(tmp_path, {}) as base, bot(tmp_path, base, "--token-env", NAME, environ=environ) as process:
        ask(base, "say", {"chat": 5, "text": "hi"})
        ask(base, "wait", {"sent": 1})
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_S) == 0


@pytest.mark.parametrize(
    ("token", "said"),
    [("", f"set the environment variable {NAME}"), (" ", NAME), ("s3cr3t", f"{NAME}: this is no token")],
)
def test_what_is_wrong_with_it_is_told_with_its_name(token: str, said: str, tmp_path: Path) -> None:
    # The one that it would be by default is a good one.
    environ = {**ENVIRON, NAME: token}
    command = ["telegram", "--store", str(tmp_path / "bot.db"), "--token-env", NAME]
    done = run_forked("shardline", *command, environment=environ, timeout=LIMIT_S)

    assert done.returncode == 2
    assert said in done.stderr
    assert "SHARDLINE_TELEGRAM_TOKEN" not in done.stderr
    assert "s3cr3t" not in done.stderr
    assert done.stderr.count("\n") == 1
