"""Telegram over real sockets: its throughput to the transcript channel's, its latency to a bare loop's.

The messages are fed as updates by the server of the tests, in a process of its own, with the limits off. The bare loop
polls, writes one raw row in a commit of its own, and sends: over httpx, as one writes it, and to see what the runtime
costs without the client over the client of the channel.
"""

import json
import statistics
import subprocess
import sys
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import cast

import apsw
import httpx
import trio

from benchmarks.comparison import Goal, run_goals
from benchmarks.product import TEXT
from benchmarks.raw import Rate
from benchmarks.raw_store import Sync
from shardline import BusMessage, Context, Runtime, Topology
from shardline.actors.plain import Plain
from shardline.adapters.base import RateLimits
from shardline.adapters.telegram import Telegram
from shardline.adapters.telegram.api import HttpApi
from shardline.adapters.telegram.sim.bot import FIRST_ID
from shardline.adapters.telegram.wire import Ok
from shardline.adapters.transcript import Transcript
from shardline.adapters.transcript.sink import open_sink

TOKEN = "4200:benchmark"  # noqa: S105 (invented)
CHATS = 200
MESSAGES_PER_S = 1_500
"""How many messages a throughput run has, for each second it was told to take."""
PACE_PER_S = 200
THROUGHPUT = 0.5
LATENCY = 1 / 3
Bot = Callable[[str, Path, int], Awaitable[float]]
"""Answers so many messages; returns how long it took, seconds."""
Call = Callable[[str, Mapping[str, Plain]], Awaitable[object]]
"""Makes one call of the Bot API by its name; returns its result."""


def echo() -> Topology:
    """Answers with the text."""
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        ctx.reply(message.payload.text)

    return topology


async def product(base: str, store: Path, messages: int, *, sync: Sync) -> float:
    """The runtime."""
    adapter = Telegram(TOKEN, api_base=base, limits=RateLimits())
    began_s = trio.current_time()
    async with Runtime.open(
        echo(), store=store, adapters=[adapter], durability="full" if sync == "FULL" else "normal"
    ) as runtime:
        await runtime.wait_until(lambda: runtime.counters.get("sent", 0) >= messages and runtime.is_quiet)
        took_s = trio.current_time() - began_s
    await adapter.aclose()
    return took_s


async def bare_loop(base: str, store: Path, messages: int, *, sync: Sync) -> float:
    """Poll, one raw commit, send; one after the other, over httpx."""
    async with httpx.AsyncClient(base_url=f"{base}/bot{TOKEN}/", timeout=60) as client:

        async def call(method: str, fields: Mapping[str, Plain]) -> object:
            answer = await client.post(method, json=fields)
            return cast("dict[str, object]", answer.raise_for_status().json())["result"]

        return await _loop(call, store, messages, sync=sync)


async def bare_loop_with_our_client(base: str, store: Path, messages: int, *, sync: Sync) -> float:
    """The same over the client of the channel."""
    api = HttpApi(TOKEN, base=base)

    async def call(method: str, fields: Mapping[str, Plain]) -> object:
        answer = await api.call(method, fields, read_s=60)
        assert isinstance(answer, Ok)
        return answer.result

    took_s = await _loop(call, store, messages, sync=sync)
    await api.aclose()
    return took_s


async def _loop(call: Call, store: Path, messages: int, *, sync: Sync) -> float:
    database = apsw.Connection(str(store))
    database.pragma("journal_mode", "wal")
    database.pragma("synchronous", sync)
    database.execute("CREATE TABLE update_row (id INTEGER PRIMARY KEY, body TEXT NOT NULL)")
    began_s = trio.current_time()
    offset, done = 0, 0
    while done < messages:
        page = await call("getUpdates", {"offset": offset, "timeout": 50, "limit": 100})
        assert isinstance(page, list)
        for update in cast("list[object]", page):
            match update:
                case {"update_id": int(number), "message": {"chat": {"id": int(chat)}, "text": str(text)}}:
                    database.execute("INSERT INTO update_row VALUES (?, ?)", (number, json.dumps(update)))
                    await call("sendMessage", {"chat_id": chat, "text": text})
                    offset = number + 1
                    done += 1
                case _:
                    raise AssertionError(update)
    took_s = trio.current_time() - began_s
    database.close()
    return took_s


def over_telegram(path: Path, bot: Bot, *, seconds: float) -> Rate:
    """Messages a second through the server, all of them waiting from the start."""
    messages = _count(seconds)
    with _server(path, messages, per_s=0) as base:
        took_s = trio.run(bot, base, path, messages)
    return Rate(messages=messages, commits=0, took_s=took_s)


def over_transcript(path: Path, *, sync: Sync, seconds: float) -> Rate:
    """The same messages as a log."""
    messages = _count(seconds)
    log = path.with_suffix(".jsonl")
    log.write_text("".join(_log_line(number) for number in range(messages)))
    sink = open_sink(path.with_suffix(".out"))

    async def run() -> float:
        began_s = trio.current_time()
        async with Runtime.open(
            echo(),
            store=path,
            adapters=[Transcript(log, sink)],
            durability="full" if sync == "FULL" else "normal",
        ) as runtime:
            await runtime.wait_until(lambda: runtime.counters.get("sent", 0) >= messages and runtime.is_quiet)
            return trio.current_time() - began_s

    try:
        return Rate(messages=messages, commits=0, took_s=trio.run(run))
    finally:
        sink.close()


def latency(path: Path, bot: Bot, *, seconds: float) -> Rate:
    """The median from an update served to its answer received, at a steady pace; as one message in that time."""
    messages = max(100, int(PACE_PER_S * seconds))
    with _server(path, messages, per_s=PACE_PER_S) as base:
        trio.run(bot, base, path, messages)
        told = trio.run(_calls, base)
    served = cast("dict[str, float]", told["served_at_s"])
    calls = cast("list[dict[str, object]]", told["calls"])
    delays_s: list[float] = []
    for call in calls:
        if call["method"] == "sendMessage":
            text = cast("dict[str, str]", call["fields"])["text"]
            number = int(text.partition(" ")[0])
            delays_s.append(cast("float", call["at_s"]) - served[str(FIRST_ID + number)])
    assert len(delays_s) == messages
    return Rate(messages=1, commits=0, took_s=statistics.median(delays_s))


def telegram_goals() -> list[Goal]:
    """The channel's two bars, and the bare loop's own throughput for information."""
    sync: Sync = "NORMAL"
    ours = partial(product, sync=sync)
    bare = partial(bare_loop, sync=sync)
    fast = partial(bare_loop_with_our_client, sync=sync)
    return [
        Goal(
            name="telegram, to the transcript channel",
            sync=sync,
            bar=THROUGHPUT,
            product=partial(over_telegram, bot=ours),
            raw=partial(over_transcript, sync=sync),
        ),
        Goal(
            name="telegram, to a bare loop",
            sync=sync,
            product=partial(over_telegram, bot=ours),
            raw=partial(over_telegram, bot=bare),
        ),
        Goal(
            name=f"telegram, 1/latency at {PACE_PER_S}/s to a bare loop",
            sync=sync,
            bar=LATENCY,
            product=partial(latency, bot=ours),
            raw=partial(latency, bot=bare),
        ),
        Goal(
            name=f"telegram, 1/latency at {PACE_PER_S}/s to a bare loop over our client",
            sync=sync,
            product=partial(latency, bot=ours),
            raw=partial(latency, bot=fast),
        ),
    ]


def _count(seconds: float) -> int:
    return CHATS * max(1, int(MESSAGES_PER_S * seconds) // CHATS)


def _text(number: int) -> str:
    return f"{number} {TEXT}"


def _log_line(number: int) -> str:
    chat, seq = number % CHATS + 1, number // CHATS
    line = {"conversation": chat, "seq": seq, "sender": "user1", "at": "12:00", "text": _text(number)}
    return json.dumps(line) + "\n"


@contextmanager
def _server(path: Path, messages: int, *, per_s: int) -> Generator[str]:
    script = path.with_suffix(".json")
    said = [{"chat": number % CHATS + 1, "text": _text(number)} for number in range(messages)]
    script.write_text(json.dumps({"messages": said, "per_s": per_s}))
    command = [sys.executable, "-m", "shardline", "telegram-sim", "--port", "0", "--script", str(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.terminate()


async def _calls(base: str) -> dict[str, object]:

    async with httpx.AsyncClient(timeout=30) as client:
        answer = await client.get(f"{base}/sim/{TOKEN}/calls")
    return cast("dict[str, object]", answer.json())


if __name__ == "__main__":
    sys.exit(run_goals("telegram", __doc__ or "", telegram_goals()))
