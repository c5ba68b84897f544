"""F19: no answer after the request left is neither a failure nor a success. Over sockets, to a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import trio

from shardline import BusMessage, Code, Context, Permanence, RetryPolicy, Runtime, Topology
from shardline.adapters.base import ChannelCaps, Edge, NotSent, Outbound, SendOutcome, Sent, Uncertain
from shardline.storage.records import OutboxState
from tests.kits.reaped import reaped

SERVER = r"""
import socket, sys

listener = socket.socket()
listener.bind(("127.0.0.1", 0))
listener.listen()
print(listener.getsockname()[1], flush=True)
held = []
while True:
    connection, _ = listener.accept()
    request = b""
    while b"\r\n\r\n" not in request:
        request += connection.recv(65536)
    head, _, body = request.partition(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
    while len(body) < length:
        body += connection.recv(65536)
    text = body.decode()
    print("got", text, flush=True)
    if text == "silent":
        held.append(connection)  # delivered, and never answered
        continue
    if text == "bad gateway":
        connection.sendall(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
    elif text != "dropped":
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    connection.close()
"""


@attrs.define
class Http:
    """Posts each text. Its table: no connection, not sent; no whole answer, uncertain; 502, uncertain; 200, sent.

    Attributes:
        port: Of the server.
        closed: Refused connections still to come: the first of them go to a port that nobody listens on.
    """

    port: int
    closed: int = 0
    name: str = "http"
    prefix: str = "http"
    caps: ChannelCaps = ChannelCaps(send_timeout_s=5)

    async def run(self, edge: Edge, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        await trio.sleep_forever()

    async def send(self, out: Outbound) -> SendOutcome:
        port = self.port
        if out.text == "refused" and self.closed:
            self.closed, port = self.closed - 1, 1
        try:
            stream = await trio.open_tcp_stream("127.0.0.1", port)
        except OSError:
            return NotSent(Code.DELIVERY_PERMANENT, Permanence.TRANSIENT, text="connection refused")
        body, answer = out.text.encode(), b""
        async with stream:
            await stream.send_all(b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
            async for part in stream:
                answer += part
        status = answer.split(b" ")[1] if b"\r\n\r\n" in answer else b""
        match status:
            case b"200":
                return Sent(None)
            case b"":
                return Uncertain("closed without an answer")
            case _:
                return Uncertain(f"status {status.decode()}")


@contextmanager
def server() -> Generator[tuple[int, list[str]]]:
    """The server's port, and what it got once the block has ended."""
    got: list[str] = []
    with reaped(
        subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True)
    ) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline()), got
        finally:
            process.kill()
            got += [line.removeprefix("got ").rstrip("\n") for line in process.stdout]


def look(store: Path, *words: str) -> list[dict[str, Any]]:
    """What the command shows of sends."""
    command = [sys.executable, "-m", "shardline", "outbox", *words, "--json", "--store", str(store)]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [json.loads(line) for line in shown.splitlines()]


async def test_f19_four_ways_to_hear_no_answer(tmp_path: Path) -> None:
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        pass

    texts = ("refused", "dropped", "silent", "bad gateway", "fine")
    ends: dict[str, str] = {}
    with trio.fail_after(120):
        with server() as (port, got):
            retry = RetryPolicy(max_retries=3, base_delay_s=0.05, jitter="none")
            async with Runtime.open(
                topology, store=tmp_path / "bot.db", adapters=[Http(port, closed=2)], send_retry=retry
            ) as runtime:

                async def send(text: str) -> None:
                    address = text.replace(" ", "-")
                    ends[text] = (await runtime.sender.send("http", f"http:{address}", text, text)).status

                async with trio.open_nursery() as nursery:
                    for text in texts:
                        nursery.start_soon(send, text)
                await runtime.wait_until(lambda: runtime.is_quiet)
                rows = {row.content.text: row.record for row in runtime.outbox.list()}
            # Nothing is sent again by itself after a restart either.
            async with Runtime.open(topology, store=tmp_path / "bot.db", adapters=[Http(port)]) as runtime:
                await runtime.wait_until(lambda: runtime.is_quiet)
                assert runtime.status().outbox[OutboxState.UNCERTAIN] == 3

    assert sorted(got) == sorted(texts), "each reached the server once"
    assert ends == {
        "refused": "sent",
        "dropped": "uncertain",
        "silent": "uncertain",
        "bad gateway": "uncertain",
        "fine": "sent",
    }
    assert rows["refused"].attempts == 3
    # All four are seen by the command, each with its reason.
    shown = {line["text"]: line for line in look(tmp_path / "bot.db", "list")}
    assert {text: (line["state"], line["code"], line["error"]) for text, line in shown.items()} == {
        "refused": ("sent", "DELIVERY_PERMANENT", "connection refused"),
        "dropped": ("uncertain", "DELIVERY_UNCERTAIN", "closed without an answer"),
        "silent": ("uncertain", "DELIVERY_UNCERTAIN", "timed out"),
        "bad gateway": ("uncertain", "DELIVERY_UNCERTAIN", "status 502"),
        "fine": ("sent", None, None),
    }
    [refused] = look(tmp_path / "bot.db", "show", "refused")
    assert [error["text"] for error in refused["errors"]] == ["connection refused"] * 2
