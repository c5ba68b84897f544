"""The bot under chaos, the platform it talks to, and what that platform remembers whatever becomes of the bot."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from pathlib import Path

import attrs
import trio

from shardline import Breaker, BusMessage, Code, Context, Permanence, RetryPolicy, Topology
from shardline.adapters.base import (
    ChannelCaps,
    Edge,
    Inbound,
    NotSent,
    Outbound,
    SendOutcome,
    Sent,
    Uncertain,
)
from tests.chaos.plan import CONVERSATIONS, text_of

POKED = "line:poked"
RETRY = RetryPolicy(max_retries=500, base_delay_s=0.5, max_delay_s=2)


@attrs.define
class Weather:
    """What is wrong now; storms set it, the bot and the channels heed it."""

    backend_down: bool = False
    gate: trio.Event | None = None
    limited: bool = False
    lost_answers: bool = False
    doubtful: bool = False
    bad_token: bool = False


def append(path: Path, **facts: object) -> None:
    """One line, at one go: SIGKILL takes no written byte."""
    with path.open("a") as file:
        file.write(json.dumps(facts) + "\n")


def lines(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def chaos_bot(weather: Weather) -> Topology:
    """Numbers what it is told in each conversation, and answers with it."""
    topology = Topology()

    @topology.on(
        "chat.message", retry=RETRY, breaker=Breaker(failures=6, window_s=20, open_s=3), timeout_s=600
    )
    async def answer(ctx: Context, message: BusMessage) -> None:
        text = message.payload.text
        turns = ctx.state.get("turns", 0)
        assert isinstance(turns, int)
        ctx.state["turns"] = turns + 1
        ctx.reply(f"{turns + 1}: {text}")
        if weather.gate is not None:
            await weather.gate.wait()
        if weather.backend_down:
            raise OSError("the backend is down")
        if text.startswith("retry") and ctx.failures == 0:
            raise ValueError("once")
        if text.startswith("poke "):
            ctx.publish("chat.message", f"poked by {message.conversation_key} {text}", key=POKED)
        if text.startswith("later"):
            ctx.schedule(f"at last {text}", after_s=5)

    return topology


class Line:
    """A platform that repeats what was not confirmed, and can be asked what arrived."""

    name = prefix = "line"
    caps = ChannelCaps(reconciles=True, send_timeout_s=5)

    def __init__(self, folder: Path, seed: int, chance: random.Random, weather: Weather) -> None:
        self.edge: Edge | None = None
        self.crashes: Exception | None = None
        self.is_silent = False
        self._folder = folder
        self._seed = seed
        self._chance = chance
        self._weather = weather
        self._crash = trio.Event()
        self._confirmed: defaultdict[str, int] = defaultdict(int)
        for line in lines(folder / "confirmed.jsonl"):
            self._confirmed[line["address"]] += 1
        self._arrived = {line["id"] for line in lines(folder / "sink.jsonl")}

    async def run(self, edge: Edge, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        self.edge = edge
        self._crash = trio.Event()
        task_status.started()
        async with trio.open_nursery() as nursery:
            for number in range(CONVERSATIONS):
                nursery.start_soon(self._talk, edge, f"c{number}")
            await self._crash.wait()
            raise OSError("the connection is gone")

    def crash(self) -> None:
        """The connection breaks; the next start of the edge finds it well."""
        self._crash.set()

    async def _talk(self, edge: Edge, address: str) -> None:
        while True:
            await self.say(edge, address)
            if self.is_silent:
                await trio.sleep_forever()
            await trio.sleep(self._chance.uniform(0.01, 0.6))

    async def say(self, edge: Edge, address: str) -> None:
        """Say the next thing that is not confirmed."""
        number = self._confirmed[address]
        text = text_of(self._seed, address, number)
        await edge.accept(Inbound(platform_message_id=f"{address}:{number}", address=address, text=text))
        append(self._folder / "confirmed.jsonl", address=address)
        self._confirmed[address] = number + 1

    async def send(self, out: Outbound) -> SendOutcome:
        await trio.sleep(0.01)
        weather = self._weather
        if weather.bad_token:
            return NotSent(Code.BAD_TOKEN, Permanence.TRANSIENT)
        if weather.limited:
            return NotSent(Code.RATE_LIMITED, Permanence.TRANSIENT, retry_after_s=20, scope="bot")
        if weather.lost_answers:
            if self._chance.random() < 0.5:
                self._arrive(out)
            return Uncertain("no answer")
        self._arrive(out)
        return Sent(out.idempotency_key)

    async def reconcile(self, out: Outbound) -> Sent | NotSent | None:
        await trio.lowlevel.checkpoint()
        if out.idempotency_key in self._arrived:
            return Sent(out.idempotency_key)
        return NotSent(Code.NOT_FOUND, Permanence.TRANSIENT)

    def _arrive(self, out: Outbound) -> None:
        append(
            self._folder / "sink.jsonl",
            key=out.conversation_key, id=out.idempotency_key, text=out.text, claim=out.claim,
        )  # fmt: skip
        self._arrived.add(out.idempotency_key)


class Blind:
    """A platform that cannot be asked."""

    name = prefix = "blind"
    caps = ChannelCaps(send_timeout_s=5)

    def __init__(self, weather: Weather) -> None:
        self.edge: Edge | None = None
        self._weather = weather

    async def run(self, edge: Edge, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        self.edge = edge
        task_status.started()
        await trio.sleep_forever()

    async def send(self, out: Outbound) -> SendOutcome:
        await trio.lowlevel.checkpoint()
        if self._weather.doubtful:
            return Uncertain("no answer")
        return Sent(out.idempotency_key)
