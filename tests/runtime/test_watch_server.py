"""Metrics and health over HTTP: what is told, to whom, and that no peer disturbs the bot."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import trio
import trio.testing
from prometheus_client.parser import text_string_to_metric_families

from shardline import BusError, BusMessage, Code, Context, Permanence, Runtime, Topology
from shardline.adapters.base import NotSent
from shardline.runtime.metrics import METRICS
from shardline.runtime.watch_server import watch_server
from shardline.storage.memory import open_memory
from shardline.testing import FakeChannel
from tests.kits.bots import counting_bot, until_quiet

TOKEN = "a-long-secret"


async def ask(port: int, head: str, *, token: str | None = TOKEN) -> tuple[int, str]:
    """One request; status and body."""
    authorization = "" if token is None else f"Authorization: Bearer {token}\r\n"
    return await talk(port, f"{head} HTTP/1.1\r\nHost: here\r\n{authorization}\r\n".encode())


async def talk(port: int, sent: bytes) -> tuple[int, str]:
    with trio.fail_after(20):
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            await stream.send_all(sent)
            answer = b"".join([part async for part in stream]).decode()
    found = re.match(r"HTTP/1.1 (\d{3}) ", answer)
    return (int(found[1]) if found else 0), answer.partition("\r\n\r\n")[2]


def values(text: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = (f"{name}={value}" for name, value in sample.labels.items() if name != "le")
            found[" ".join([sample.name, *labels])] = sample.value
    return found


async def test_the_numbers_are_those_of_this_runtime_and_name_nobody() -> None:
    channel = FakeChannel()
    async with (
        Runtime.open(counting_bot(), store=open_memory(), adapters=[channel]) as runtime,
        Runtime.open(counting_bot(), store=open_memory(), adapters=[FakeChannel()]) as other,
        watch_server(runtime, token=TOKEN, port=0) as port,
        watch_server(other, token=TOKEN, port=0) as other_port,
    ):
        for number in range(3):
            await channel.say("a-private-chat", f"a private word {number}")
        await until_quiet(runtime)
        status, text = await ask(port, "GET /metrics")
        _, other_text = await ask(other_port, "GET /metrics")

    found = values(text)
    assert status == 200
    assert found["shardline_events_total event=handled"] == 3
    assert found["shardline_events_total event=sent"] == 3
    assert found["shardline_turn_seconds_count topic=chat.message"] == 3
    assert found["shardline_send_seconds_count channel=fake"] == 3
    assert found["shardline_health"] == 0
    assert "private" not in text
    assert "shardline_events_total event=handled" not in values(other_text)
    families = {family.name for family in text_string_to_metric_families(text)}
    assert families == {spec.name.removesuffix("_total") for spec in METRICS}


async def test_health_is_200_until_it_fails() -> None:
    channel = FakeChannel()
    async with (
        Runtime.open(counting_bot(), store=open_memory(), adapters=[channel]) as runtime,
        watch_server(runtime, token=TOKEN, port=0) as port,
    ):
        assert await ask(port, "GET /health") == (200, '{"state": "ok", "reasons": []}\n')
        channel.script(NotSent(Code.BAD_TOKEN, Permanence.TRANSIENT))
        await channel.say("a", "hi")
        await runtime.wait_until(lambda: runtime.status().channels["fake"].is_stopped)
        status, body = await ask(port, "GET /health")

    assert status == 503
    assert [reason["word"] for reason in json.loads(body)["reasons"]] == ["channel_stopped"]


@pytest.mark.parametrize("token", [None, "", "a-long-secre", "a-long-secret-", "b-long-secret", "ä"])
async def test_a_wrong_token_is_told_nothing(token: str | None) -> None:
    async with (
        Runtime.open(counting_bot(), store=open_memory(), adapters=[FakeChannel()]) as runtime,
        watch_server(runtime, token=TOKEN, port=0) as port,
    ):
        for path in ("/metrics", "/health"):
            status, body = await ask(port, f"GET {path}", token=token)
            assert status in {400, 401}
            assert "shardline_" not in body
            assert TOKEN not in body


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", 404),
        (b"POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n", 405),
        (b"HEAD /metrics HTTP/1.1\r\nHost: a\r\n\r\n", 200),
        (b"nonsense\r\n\r\n", 400),
        (b"GET /metrics HTTP/1.1\r\n\r\n", 400),
        (b"GET /metrics HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 17_000, 431),
        (b"\x16\x03\x01", 0),
    ],
)
async def test_odd_requests_get_their_status_and_the_next_one_its_answer(sent: bytes, status: int) -> None:
    async with (
        Runtime.open(counting_bot(), store=open_memory(), adapters=[FakeChannel()]) as runtime,
        watch_server(runtime, token=None, port=0, is_open=True) as port,
    ):
        if status:
            assert (await talk(port, sent))[0] == status
        else:
            async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
                await stream.send_all(sent)
        assert (await ask(port, "GET /health", token=None))[0] == 200


async def test_peers_that_say_nothing_take_no_more_than_their_places() -> None:
    async with (
        Runtime.open(counting_bot(), store=open_memory(), adapters=[FakeChannel()]) as runtime,
        watch_server(runtime, token=None, port=0, is_open=True) as port,
    ):
        silent = [await trio.open_tcp_stream("127.0.0.1", port) for _ in range(16)]
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert await talk(port, b"") == (0, "")
        for stream in silent:
            await stream.aclose()
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert (await ask(port, "GET /health", token=None))[0] == 200


@pytest.mark.parametrize(("token", "is_open"), [(None, False), ("short", False), (TOKEN, True)])
async def test_without_a_token_it_does_not_start_unless_told_so(token: str | None, is_open: bool) -> None:
    async with Runtime.open(counting_bot(), store=open_memory(), adapters=[FakeChannel()]) as runtime:
        with pytest.raises(BusError) as refused:
            async with watch_server(runtime, token=token, port=0, is_open=is_open):
                pass

    assert refused.value.code is Code.NOT_AUTHORIZED
    assert TOKEN not in str(refused.value)


async def test_it_listens_on_this_machine_alone_unless_told_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened: list[trio.SocketListener] = []
    listen = trio.open_tcp_listeners

    async def recorded(port: int, *, host: str | None = None) -> list[trio.SocketListener]:
        opened.extend(await listen(port, host=host))
        return opened

    monkeypatch.setattr(trio, "open_tcp_listeners", recorded)
    async with (
        Runtime.open(counting_bot(), store=open_memory(), adapters=[FakeChannel()]) as runtime,
        watch_server(runtime, token=TOKEN, port=0) as port,
    ):
        assert [one.socket.getsockname() for one in opened] == [("127.0.0.1", port)]


async def test_nothing_is_timed_before_somebody_asks() -> None:
    topology, seen = Topology(), trio.Event()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        seen.set()

    channel = FakeChannel()
    async with Runtime.open(topology, store=open_memory(), adapters=[channel]) as runtime:
        await channel.say("a", "hi")
        await until_quiet(runtime)
        found = values(runtime.metrics().text().decode())

    assert found["shardline_turn_seconds_count topic=chat.message"] == 0
    assert found["shardline_events_total event=handled"] == 1


BOT = """
from shardline import Topology, run
from shardline.testing import FakeChannel
topology = Topology()
@topology.on("chat.message")
async def answer(ctx, message): ...
run(topology, store="bot.db", adapters=[FakeChannel()])
"""


def test_a_program_with_a_port_and_no_token_says_so_and_ends(tmp_path: Path) -> None:
    environment = {**os.environ, "SHARDLINE_METRICS_PORT": "9464"}
    command = [sys.executable, "-c", BOT]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=40, check=False
    )

    assert done.returncode == 1
    assert "shardline: NOT_AUTHORIZED" in done.stderr
    assert "Traceback" not in done.stderr
