"""Random turns of steps and early sends that fail and crash anywhere, against a model of ten lines."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Literal

import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from shardline import BusMessage, Context, RetryPolicy, Topology
from shardline.testing import Harness, run

Op = tuple[Literal["step", "now"], str]
Stop = tuple[int, Literal["raise", "crash", "raise inside", "crash inside"]]

OPS = st.lists(st.tuples(st.sampled_from(["step", "now"]), st.sampled_from("abcd")), max_size=6, unique=True)
STOPS = st.lists(
    st.tuples(st.integers(0, 6), st.sampled_from(["raise", "crash", "raise inside", "crash inside"])),
    # Five crashes alone would be a crash loop.
    max_size=4,
)
QUICK = RetryPolicy(max_retries=9, base_delay_s=0.1, jitter="none")


def model(ops: list[Op], stops: list[Stop]) -> tuple[list[str], Counter[str]]:
    """What is sent in the end, and how often each step was run."""
    kept: dict[str, int] = {}
    notes: dict[str, int] = {}
    ran: Counter[str] = Counter()
    for number, stop in enumerate([*stops, (-1, "raise")], 1):
        for place, (kind, name) in enumerate(ops):
            if stop in {(place, "raise"), (place, "crash")}:
                break
            if kind == "now":
                notes.setdefault(name, number)
            elif name not in kept:
                ran[name] += 1
                if place == stop[0]:
                    break
                kept[name] = number
        else:
            break
    return [f"{name} of {number}" for name, number in notes.items()] + [f"{list(kept.items())}"], ran


class Play:
    """The same with a bot."""

    def __init__(self, ops: list[Op], stops: list[Stop], store: Literal["memory", "sqlite-inline"]) -> None:
        self.ops = ops
        self.stops = stops
        self.store: Literal["memory", "sqlite-inline"] = store
        self.ran: Counter[str] = Counter()
        self.runs = 0
        self.dying = trio.Event()

    async def stop(self, how: str) -> None:
        if how.startswith("raise"):
            raise ValueError(how)
        self.dying.set()
        await trio.sleep_forever()

    async def call(self, name: str, number: int, stop: str | None) -> int:
        self.ran[name] += 1
        if stop is not None:
            await self.stop(stop)
        return number

    async def answer(self, ctx: Context, message: BusMessage) -> None:
        self.runs += 1
        number, at, how = self.runs, -1, "raise"
        if number <= len(self.stops):
            at, how = self.stops[number - 1]
        kept: list[tuple[str, int]] = []
        for place, (kind, name) in enumerate(self.ops):
            inside = how if place == at and "inside" in how else None
            if place == at and inside is None:
                await self.stop(how)
            if kind == "now":
                await ctx.send_now(name, f"{name} of {number}")
            else:
                kept.append((name, await ctx.step(name, partial(self.call, name, number, inside))))
        ctx.reply(f"{kept}")

    async def to_its_end(self) -> list[str]:
        topology = Topology()
        topology.on("chat.message", retry=QUICK)(self.answer)
        async with Harness(topology, store=self.store) as bot:
            await bot.say("fake:a", "hi")
            while await self.dies(bot):
                self.dying = trio.Event()
                await bot.crash()
            return bot.sent("fake:a")

    async def dies(self, bot: Harness) -> bool:
        """Wait until the bot is quiet, or about to die with everything it has decided on disk."""

        async def watch() -> None:
            await self.dying.wait()
            nursery.cancel_scope.cancel()

        with trio.fail_after(1_000):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(watch)
                await bot.settle()
                nursery.cancel_scope.cancel()
        await trio.testing.wait_all_tasks_blocked()
        return self.dying.is_set()


@settings(max_examples=60, deadline=None)
@given(OPS, STOPS, st.sampled_from(["memory", "sqlite-inline"]))
def test_steps_run_until_they_are_kept_and_notes_go_out_once(
    ops: list[Op], stops: list[Stop], store: Literal["memory", "sqlite-inline"]
) -> None:
    play = Play(ops, stops, store)
    sent = run(play.to_its_end)

    assert (sent, play.ran) == model(ops, stops)
