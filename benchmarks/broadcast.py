"""Median latency of chat replies while a broadcast runs, as a ratio to the same chat without it, in the same run."""

import argparse
import json
import logging
import math
import statistics
import sys
import tempfile
from pathlib import Path

import attrs
import structlog
import trio

from benchmarks.comparison import Goal
from benchmarks.product import TEXT
from benchmarks.raw import Rate
from shardline import BusMessage, Context, Runtime, Topology
from shardline.adapters.base import ChannelCaps, Edge, Inbound, Outbound, RateLimits, SendOutcome, Sent
from shardline.adapters.base import Rate as SendRate
from shardline.runtime.collector import calm_collector

CONVERSATIONS = 10_000
BOT_PER_S = 2_000.0
SAY_PER_S = 100
EACH_TURN = 500
MOST_RATIO = 2.0
MOST_MORE_MIB = 32.0


@attrs.define
class Chat:
    """A channel in memory that notes how long each answer to a person took, and what left in bulk."""

    name: str = "memory"
    prefix: str = "memory"
    caps: ChannelCaps = ChannelCaps(concurrency=64, limits=RateLimits(bot=SendRate(BOT_PER_S, burst=64)))
    edge: Edge | None = None
    said_s: dict[str, float] = attrs.field(factory=dict[str, float])
    took_s: list[float] = attrs.field(factory=list[float])
    in_bulk: int = 0

    async def run(self, edge: Edge, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        self.edge = edge
        task_status.started()
        await trio.sleep_forever()

    async def send(self, out: Outbound) -> SendOutcome:
        await trio.lowlevel.checkpoint()
        said_s = self.said_s.pop(out.address, None)
        if said_s is None:
            self.in_bulk += 1
        else:
            self.took_s.append(trio.current_time() - said_s)
        return Sent(None)

    async def say(self, address: str, number: int, text: str) -> None:
        assert self.edge is not None
        await self.edge.accept(Inbound(platform_message_id=str(number), address=address, text=text))


def bot() -> Topology:
    """Answers; `all:first:count` sends to so many conversations in bulk, some hundred with each turn."""
    topology = Topology()

    @topology.on("chat.message", concurrency=256, timeout_s=120)
    async def answer(ctx: Context, message: BusMessage) -> None:
        text = message.payload.text
        if not text.startswith("all:"):
            ctx.reply(text)
            return
        first, left = map(int, text.removeprefix("all:").split(":"))
        for number in range(first, first + min(left, EACH_TURN)):
            ctx.send("memory", f"memory:all-{number}", TEXT, bulk=True)
        if left > EACH_TURN:
            ctx.publish("chat.message", f"all:{first + EACH_TURN}:{left - EACH_TURN}")

    return topology


@attrs.frozen(kw_only=True)
class Round:
    """Medians of one run, milliseconds, how many answers they are of, and the memory that the broadcast took.

    A part that was left out has the median `nan`.
    """

    alone_ms: float
    beside_ms: float
    answers: tuple[int, int]
    more_mib: float
    broadcast_s: float

    @property
    def ratio(self) -> float:
        return self.beside_ms / self.alone_ms


def run_round(path: Path, conversations: int, seconds: float) -> Round:
    """Chat alone for so many seconds, then beside a broadcast until that is out; either may be 0."""

    async def main() -> Round:
        chat, number = Chat(), 0

        async def talk() -> None:
            nonlocal number
            begun_s, spoken = trio.current_time(), 0
            while True:
                address = f"person-{number % 500}"
                if address not in chat.said_s:
                    chat.said_s[address] = trio.current_time()
                    nursery.start_soon(chat.say, address, number, TEXT)
                number, spoken = number + 1, spoken + 1
                await trio.sleep_until(begun_s + spoken / SAY_PER_S)

        async with (
            Runtime.open(bot(), store=path, adapters=[chat]) as runtime,
            trio.open_nursery() as nursery,
        ):
            with trio.move_on_after(1):
                await talk()  # everything warm
            chat.took_s.clear()
            with trio.move_on_after(seconds):
                await talk()
            alone, before_kib = list(chat.took_s), _resident_kib()
            chat.took_s.clear()
            begun_s = trio.current_time()
            if conversations:
                async with trio.open_nursery() as talking:
                    talking.start_soon(talk)
                    await chat.say("boss", -1, f"all:0:{conversations}")
                    await runtime.wait_until(lambda: chat.in_bulk >= conversations)
                    talking.cancel_scope.cancel()
            beside, broadcast_s = list(chat.took_s), trio.current_time() - begun_s
            await runtime.wait_until(lambda: runtime.is_quiet)
            return Round(
                alone_ms=_median_ms(alone),
                beside_ms=_median_ms(beside),
                answers=(len(alone), len(beside)),
                more_mib=(_resident_kib() - before_kib) / 1024,
                broadcast_s=broadcast_s,
            )

    return trio.run(main)


def broadcast_goals() -> list[Goal]:
    """Answers to people beside a broadcast, to answers alone; a rate here is one over the median latency."""
    return [
        Goal(
            name="answers beside a broadcast, to alone",
            sync="FULL",
            bar=1 / MOST_RATIO,
            product=_answers_beside,
            raw=_answers_alone,
        )
    ]


def _answers_beside(path: Path, *, seconds: float) -> Rate:
    return _once_in(run_round(path, round(CONVERSATIONS * seconds), 0).beside_ms)


def _answers_alone(path: Path, *, seconds: float) -> Rate:
    return _once_in(run_round(path, 0, CONVERSATIONS * seconds / BOT_PER_S).alone_ms)


def _once_in(median_ms: float) -> Rate:
    return Rate(messages=1, commits=0, took_s=median_ms / 1e3)


def _median_ms(took_s: list[float]) -> float:
    return statistics.median(took_s) * 1e3 if took_s else math.nan


def _resident_kib() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise AssertionError("no VmRSS in /proc/self/status")


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench broadcast", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one round with a tenth of the conversations")
    parser.add_argument("--rounds", type=int, help="rounds; 3")
    parser.add_argument("--folder", type=Path, help="where the files lie; a temporary folder by default")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    options = parser.parse_args()
    calm_collector()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    conversations = CONVERSATIONS // 10 if options.quick else CONVERSATIONS
    rounds: list[Round] = []
    for _ in range(options.rounds or (1 if options.quick else 3)):
        with tempfile.TemporaryDirectory(dir=options.folder) as place:
            rounds.append(run_round(Path(place, "bench.db"), conversations, conversations / BOT_PER_S))
    ratio = statistics.median(one.ratio for one in rounds)
    more_mib = statistics.median(one.more_mib for one in rounds)
    is_met = ratio <= MOST_RATIO and more_mib <= MOST_MORE_MIB
    if options.json:
        told = [{**attrs.asdict(one), "ratio": one.ratio} for one in rounds]
        print(json.dumps({"rounds": told, "ratio": ratio, "more_mib": more_mib, "is_met": is_met}))
        return not is_met
    for one in rounds:
        print(
            f"alone {one.alone_ms:6.2f} ms of {one.answers[0]:4}   beside {one.beside_ms:6.2f} ms of {one.answers[1]:4}"
            f"   ratio {one.ratio:5.2f}   {one.more_mib:+6.1f} MiB   broadcast {one.broadcast_s:5.2f} s"
        )
    print(
        f"ratio {ratio:.2f}, at most {MOST_RATIO:g}; memory {more_mib:+.1f} MiB, at most {MOST_MORE_MIB:+g}"
        f"   {'met' if is_met else 'MISSED'}"
    )
    return not is_met


if __name__ == "__main__":
    sys.exit(main())
