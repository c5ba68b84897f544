"""`shardline telegram` and `shardline telegram-sim` side by side, each in its own process; the bot is killed."""

from __future__ import annotations

import json
import signal
import time
import urllib.request
from collections import Counter
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pytest

from tests.adapters.telegram.samples import TOKEN
from tests.kits.forked import Running, run_forked, start_forked

LIMIT_S = 120
ENVIRON = {"SHARDLINE_TELEGRAM_TOKEN": TOKEN, "NO_PROXY": "127.0.0.1"}


@contextmanager
def sim(folder: Path, script: object) -> Generator[str]:
    path = folder / "script.json"
    path.write_text(json.dumps(script))
    command = ["telegram-sim", "--script", str(path), "--port", "0", "--out", str(folder / "calls")]
    with start_forked("shardline", *command) as server:
        try:
            yield server.stdout.readline().strip()
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(LIMIT_S)


def ask(base: str, verb: str, told: object, *, token: str = TOKEN) -> dict[str, object]:
    # Without the proxies of the environment.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"{base}/sim/{token}/{verb}", json.dumps(told).encode(), timeout=LIMIT_S) as answer:
        return cast("dict[str, object]", json.load(answer))


@contextmanager
def bot(folder: Path, base: str, *more: str, environ: Mapping[str, str] = ENVIRON) -> Generator[Running]:
    store = str(folder / "bot.db")
    command = ["telegram", "--store", store, "--api-base", base, "--no-limits", *more]
    with start_forked("shardline", *command, environment=environ) as process:
        yield process
        with open(folder / "log", "a") as log:
            process.wait(LIMIT_S)
            log.write(process.complaints())


def status(folder: Path) -> dict[str, dict[str, int]]:
    done = run_forked("shardline", "status", "--store", str(folder / "bot.db"), "--json", timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr
    return cast("dict[str, dict[str, int]]", json.loads(done.stdout))


def test_a_flood_is_answered_without_a_loss(tmp_path: Path) -> None:
    flood = {
        "method": "sendMessage",
        "kind": "refuse",
        "times": 2,
        "chat": 1,
        "code": 429,
        "parameters": {"retry_after": 1},
    }
    script = {
        "messages": [{"chat": chat, "text": "hi {n}", "times": 20} for chat in (1, 2, -1001557000001)],
        "faults": [flood],
    }
    with sim(tmp_path, script) as base, bot(tmp_path, base) as process:
        ask(base, "wait", {"sent": 60})
        process.send_signal(signal.SIGTERM)

        assert process.wait(LIMIT_S) == 0
    calls = [json.loads(line) for line in (tmp_path / "calls").read_text().splitlines()]
    sent = [call["fields"] for call in calls if call["message_id"] is not None]
    found = status(tmp_path)

    assert [one["text"] for one in sent if one["chat_id"] == 1] == [f"{n}: hi {n}" for n in range(1, 21)]
    assert len(sent) == 60
    assert found["inbox"]["done"] == 60
    assert found["outbox"]["sent"] == 60
    assert TOKEN.partition(":")[2] not in (tmp_path / "log").read_text()


@pytest.mark.long
def test_f07_a_kill_between_the_two_pages_of_an_album_and_it_still_is_one_turn(tmp_path: Path) -> None:
    album = ("--app", "tests.adapters.telegram.album_app:topology")
    with sim(tmp_path, {"updates": [member(1, "before"), member(2, "")]}) as base:
        with bot(tmp_path, base, *album) as process:
            # Confirmed: the platform will not tell these again.
            ask(base, "wait", {"confirmed": True})
            process.kill()
            process.wait(LIMIT_S)
        assert status(tmp_path)["inbox"].get("done", 0) == 0
        ask(base, "push", member(3, "after"))
        with bot(tmp_path, base, *album) as process:
            ask(base, "wait", {"sent": 1})
            process.send_signal(signal.SIGTERM)
            process.wait(LIMIT_S)
    calls = [json.loads(line) for line in (tmp_path / "calls").read_text().splitlines()]

    assert [call["fields"]["text"] for call in calls if call["message_id"] is not None] == ["before,,after"]
    assert status(tmp_path)["inbox"]["done"] == 3


def member(number: int, caption: str) -> dict[str, object]:
    """A photo of an album."""
    message = {
        "message_id": number,
        "media_group_id": "13579000000000001",
        "from": {"id": 7000000002, "is_bot": False, "first_name": "Bo"},
        "chat": {"id": 7000000002, "type": "private"},
        "date": 1760000011,
        "caption": caption,
        "photo": [{"file_id": f"FAKEfile{number}", "file_unique_id": f"u{number}", "width": 9, "height": 9}],
    }
    return {"message": message}


@pytest.mark.long
def test_ten_kills_lose_nothing_and_send_nothing_twice(tmp_path: Path) -> None:
    chats, each = 20, 15
    script = {"messages": [{"chat": chat, "text": "{n}", "times": each} for chat in range(1, chats + 1)]}
    with sim(tmp_path, script) as base:
        for life in range(1, 11):
            with bot(tmp_path, base) as process:
                ask(base, "wait", {"sent": life * 20})
                process.kill()
                process.wait(LIMIT_S)
        with bot(tmp_path, base) as process:
            # Whatever was on its way at a kill is uncertain, and may be missing among those sent.
            ask(base, "say", {"chat": 999, "text": "last"})
            wait_settled(tmp_path, chats * each + 1)
            process.send_signal(signal.SIGTERM)
            process.wait(LIMIT_S)
    calls = [json.loads(line) for line in (tmp_path / "calls").read_text().splitlines()]
    sent = Counter(
        (call["fields"]["chat_id"], call["fields"]["text"])
        for call in calls
        if call["message_id"] is not None
    )
    found = status(tmp_path)
    uncertain = found["outbox"].get("uncertain", 0)

    assert max(sent.values()) == 1
    assert found["inbox"] == {**found["inbox"], "done": chats * each + 1}
    assert found["outbox"]["sent"] + uncertain == chats * each + 1
    assert found["outbox"]["sent"] <= len(sent) <= chats * each + 1


def wait_settled(folder: Path, total: int, *, limit_s: float = 150) -> None:
    """Until all are handled, and each send is sent or uncertain."""
    found = status(folder)
    # Not so many looks: on a quick machine they were over before a silent server is given up.
    ends_s = time.monotonic() + limit_s
    while time.monotonic() < ends_s:
        outbox = found["outbox"]
        if found["inbox"].get("done") == total == outbox["sent"] + outbox.get("uncertain", 0):
            return
        found = status(folder)
    raise AssertionError(f"not settled: {found}")


@pytest.mark.parametrize(
    ("token", "base", "code", "said"),
    [
        ("", "http://127.0.0.1:9", 2, "SHARDLINE_TELEGRAM_TOKEN"),
        ("nonsense", "http://127.0.0.1:9", 2, "no token of a bot"),
        (TOKEN, "nowhere", 2, "--api-base"),
    ],
)
def test_what_is_missing_is_told_in_one_line(
    token: str, base: str, code: int, said: str, tmp_path: Path
) -> None:
    command = ["telegram", "--store", str(tmp_path / "bot.db"), "--api-base", base]
    environ = {**ENVIRON, "SHARDLINE_TELEGRAM_TOKEN": token}
    done = run_forked("shardline", *command, environment=environ, timeout=LIMIT_S)

    assert done.returncode == code
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_proxy_that_is_none_is_told_without_its_password(tmp_path: Path) -> None:
    command = ["telegram", "--store", str(tmp_path / "bot.db"), "--api-base", "http://127.0.0.1:9"]
    environ = {
        **ENVIRON,
        "SHARDLINE_TELEGRAM_TOKEN": TOKEN,
        "http_proxy": "ftp://me:secret@host",
        "no_proxy": "",
    }
    done = run_forked("shardline", *command, environment=environ, timeout=LIMIT_S)

    assert done.returncode == 2
    assert "HTTPS_PROXY: the proxy is" in done.stderr
    assert "secret" not in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("script", "said"),
    [("{", "not JSON"), ('{"fault": []}', "fault"), ('{"faults": [{"kind": "explode"}]}', "faults[0].kind")],
)
def test_a_script_that_is_none_is_told_with_its_place(script: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "script.json"
    path.write_text(script)
    done = run_forked("shardline", "telegram-sim", "--script", str(path), timeout=LIMIT_S)

    assert done.returncode == 2
    assert said in done.stderr


def test_a_port_that_is_taken_is_told_in_one_line(tmp_path: Path) -> None:
    with sim(tmp_path, {}) as base:
        port = base.rpartition(":")[2]
        done = run_forked("shardline", "telegram-sim", "--port", port, timeout=LIMIT_S)

    assert done.returncode == 1
    assert f"--port {port} cannot be used" in done.stderr
    assert done.stderr.count("\n") == 1
