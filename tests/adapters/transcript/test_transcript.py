import gzip
import json
import random
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import trio

from shardline.actors.errors import BusError, Code
from shardline.adapters.base import Adapter, Inbound, NotSent, Outbound, Reconciles, Sent, Stored
from shardline.adapters.transcript import Sink, Tally, Transcript, open_sink, read_sink
from shardline.adapters.transcript.intake import FACT_EVERY_LINES, WINDOW_CHARS, WINDOW_LINES, WORKERS, Intake
from shardline.adapters.transcript.position import Position, Watermark
from shardline.adapters.transcript.reader import ChatLine
from shardline.testing import FakeEdge
from tests.kits.chat_log import write_log
from tests.kits.forked import Script, run_forked


@pytest.fixture
def sink(tmp_path: Path) -> Iterator[Sink]:
    with open_sink(tmp_path / "sink") as opened:
        yield opened


def out(key: str, *, address: str = "7", text: str = "1: hello") -> Outbound:
    return Outbound(
        id=1,
        channel="transcript",
        conversation_key=f"demo:{address}",
        address=address,
        text=text,
        idempotency_key=key,
        part=0,
        claim=3,
        attempt=1,
    )


def is_whole(edge: FakeEdge, counts: dict[str, int]) -> bool:
    """Every message of every conversation, once, in its order."""
    wanted = {key: [f"{key}:{seq}" for seq in range(count)] for key, count in counts.items()}
    return edge.by_conversation() == wanted and edge.overlaps == []


def test_it_is_a_channel(tmp_path: Path, sink: Sink) -> None:
    adapter: Adapter = Transcript(tmp_path / "log", sink)

    assert isinstance(adapter, Reconciles)
    assert (adapter.name, adapter.prefix) == ("transcript", "demo")
    assert adapter.caps.reconciles
    assert not adapter.caps.deduplicates
    assert adapter.caps.linear


async def test_a_line_becomes_a_message(tmp_path: Path, sink: Sink) -> None:
    record = {"conversation": 3, "seq": 41, "sender": "user9", "at": "23:05", "text": " ü\n"}
    (tmp_path / "log").write_text(json.dumps(record))
    edge = FakeEdge()
    await Transcript(tmp_path / "log", sink).run(edge)
    (found,) = edge.accepted

    assert (found.platform_message_id, found.address, found.text) == ("3:41", "3", " ü\n")
    assert (found.sender, found.sent_at, found.topic) == ("user9", "2000-01-01T23:05:00Z", "chat.message")


@pytest.mark.parametrize(("conversations", "messages"), [(1, 300), (24, 3000), (700, 2500)])
@pytest.mark.parametrize("as_is", [False, True])
async def test_every_conversation_is_read_in_order(
    tmp_path: Path, sink: Sink, conversations: int, messages: int, as_is: bool
) -> None:
    counts = write_log(tmp_path / "log.gz", conversations=conversations, messages=messages, seed=1)
    edge = FakeEdge()
    transcript = Transcript(tmp_path / "log.gz", sink, as_is=as_is)
    await transcript.run(edge)

    assert is_whole(edge, counts)
    assert edge.peak <= WORKERS
    assert transcript.tally == Tally(total=messages, settled=messages, accepted=messages)


async def test_many_conversations_are_accepted_at_once(tmp_path: Path, sink: Sink) -> None:
    """As many as there are workers; nobody's commit ends before that many have begun."""
    write_log(tmp_path / "log", conversations=600, messages=2000)
    all_at_once = trio.Event()

    async def together(inbound: Inbound) -> None:
        if edge.peak == WORKERS:
            all_at_once.set()
        await all_at_once.wait()

    edge = FakeEdge(together)
    await Transcript(tmp_path / "log", sink).run(edge)

    assert edge.peak == WORKERS


async def test_a_slow_conversation_holds_nobody_up(tmp_path: Path, sink: Sink) -> None:
    counts = write_log(tmp_path / "log", conversations=800, messages=2000)
    others_done = trio.Event()

    async def slow(inbound: Inbound) -> None:
        if inbound.platform_message_id == "0:0":
            await others_done.wait()
        elif len(edge.accepted) == 2000 - counts["0"] - 1:
            others_done.set()

    edge = FakeEdge(slow)
    await Transcript(tmp_path / "log", sink).run(edge)

    assert is_whole(edge, counts)


async def test_what_is_read_and_not_settled_is_bounded() -> None:
    async def never(inbound: Inbound) -> None:
        await trio.sleep_forever()

    edge = FakeEdge(never)
    begin = Position(as_is=False, start=0, end=0, digest="", low=0, bad=0)
    put: list[int] = []

    def line(number: int, text: str) -> ChatLine:
        return ChatLine(number=number, conversation=str(number), seq=0, sender="u", at="00:00", text=text)

    async def feed(intake: Intake, text: str) -> None:
        for number in range(2 * WINDOW_LINES):
            await intake.put(number, line(number, text))
            put.append(number)

    for text, most in (("t", WINDOW_LINES), ("t" * (WINDOW_CHARS // 8), 8)):
        put.clear()
        async with trio.open_nursery() as nursery:
            intake = Intake(edge, begin, Watermark(), Tally())
            nursery.start_soon(intake.work, nursery.cancel_scope)
            nursery.start_soon(feed, intake, text)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()

        assert len(put) == most


@pytest.mark.parametrize("as_is", [False, True])
async def test_the_same_again_adds_nothing(tmp_path: Path, sink: Sink, as_is: bool) -> None:
    counts = write_log(tmp_path / "log", conversations=30, messages=2000)
    edge = FakeEdge()
    await Transcript(tmp_path / "log", sink, as_is=as_is).run(edge)
    again = Transcript(tmp_path / "log", sink, as_is=as_is)
    await again.run(edge)

    assert is_whole(edge, counts)
    assert again.tally == Tally(total=2000, known=again.tally.known, settled=2000)
    # A position is as far as the slowest conversation: in the file's order one of 355 lines may end last.
    assert again.tally.known > (0 if as_is else 2000 - 2 * (WINDOW_LINES + FACT_EVERY_LINES))
    assert edge.duplicates == 2000 - again.tally.known


async def test_the_stored_position_never_goes_back(tmp_path: Path, sink: Sink) -> None:
    """Of two accepts that carry a position the later one may end first."""
    write_log(tmp_path / "log", conversations=200, messages=3000)
    chance = random.Random(5)
    lows: list[int] = []

    class SlowFacts(FakeEdge):
        async def accept(self, inbound: Inbound, *, facts: Mapping[str, str] | None = None) -> Stored | None:
            for _ in range(chance.choice((0, 20)) if facts else 0):
                await trio.lowlevel.checkpoint()
            stored = await super().accept(inbound, facts=facts)
            lows.extend(json.loads(fact)["low"] for fact in (facts or {}).values())
            return stored

    await Transcript(tmp_path / "log", sink).run(SlowFacts())

    assert lows == sorted(lows)
    assert len(lows) > 5


async def test_another_order_of_the_same_log_adds_nothing(tmp_path: Path, sink: Sink) -> None:
    counts = write_log(tmp_path / "log", conversations=30, messages=500)
    edge = FakeEdge()
    for as_is in (False, True, False):
        await Transcript(tmp_path / "log", sink, as_is=as_is).run(edge)

    assert is_whole(edge, counts)


async def test_stopped_anywhere_it_goes_on_and_loses_nothing(tmp_path: Path, sink: Sink) -> None:
    """The log grows between the runs; accepts end in another order than they began."""
    counts = write_log(tmp_path / "whole", conversations=40, messages=3000, seed=5)
    lines = (tmp_path / "whole").read_bytes().splitlines(keepends=True)
    chance = random.Random(11)
    chance.shuffle(lines)
    lines.sort(key=lambda line: int(json.loads(line)["seq"]))
    stop_at = 0
    scopes: list[trio.CancelScope] = []

    async def uneven(inbound: Inbound) -> None:
        for _ in range(chance.choice((0, 0, 1, 50))):
            await trio.lowlevel.checkpoint()
        if len(edge.accepted) >= stop_at:
            scopes[-1].cancel()

    edge = FakeEdge(uneven)
    log = tmp_path / "log"
    for size in range(300, 3001, 300):
        log.write_bytes(b"".join(lines[:size]))
        before = len(edge.accepted)
        stop_at = min(before + chance.randrange(20, 400), size)
        scopes.append(trio.CancelScope())
        with scopes[-1]:
            await Transcript(log, sink).run(edge)

        assert len(edge.accepted) > before
    stop_at = 4000
    transcript = Transcript(log, sink)
    await transcript.run(edge)

    assert is_whole(edge, counts)
    assert transcript.tally.known > 500
    assert transcript.tally.settled == transcript.tally.total == 3000


async def test_a_refusal_of_the_bus_ends_it_alone_and_the_next_run_goes_on(
    tmp_path: Path, sink: Sink
) -> None:
    counts = write_log(tmp_path / "log", conversations=50, messages=2000)
    edge = FakeEdge()
    edge.fails_after, edge.error = 700, BusError(Code.STORE_FULL, "no room")
    transcript = Transcript(tmp_path / "log", sink)
    with pytest.raises(BusError) as caught:
        await transcript.run(edge)

    assert caught.value is edge.error
    edge.error = None
    await transcript.run(edge)
    assert is_whole(edge, counts)
    assert (transcript.tally.accepted, transcript.tally.settled) == (2000, 2000)


async def test_bad_lines_are_counted_with_their_number_in_every_run(tmp_path: Path, sink: Sink) -> None:
    write_log(tmp_path / "log", conversations=10, messages=1500)
    lines = (tmp_path / "log").read_bytes().splitlines(keepends=True)
    lines[3] = b"broken\n"
    lines[900] = lines[900].replace(b'"text"', b'"test"')
    (tmp_path / "log").write_bytes(b"".join(lines) + b'{"conversation": 1')
    edge = FakeEdge()
    first = Transcript(tmp_path / "log", sink)
    await first.run(edge)
    second = Transcript(tmp_path / "log", sink)
    await second.run(edge)

    assert sorted(where for _, where in edge.bad[:3]) == ["line 1501", "line 4", "line 901"]
    assert sorted(line.number for line in first.tally.first_bad) == [4, 901, 1501]
    assert (first.tally.accepted, first.tally.bad, first.tally.total) == (1498, 3, 1501)
    assert (second.tally.accepted, second.tally.bad, second.tally.settled) == (0, 3, 1501)


async def test_a_gzip_log_that_ends_early_gives_its_whole_lines_and_one_bad(
    tmp_path: Path, sink: Sink
) -> None:
    write_log(tmp_path / "plain", conversations=5, messages=2000)
    packed = gzip.compress((tmp_path / "plain").read_bytes())
    (tmp_path / "log").write_bytes(packed[: len(packed) // 2])
    edge = FakeEdge()
    for _ in range(2):
        transcript = Transcript(tmp_path / "log", sink)
        await transcript.run(edge)

        assert transcript.tally.bad == 1
        assert transcript.tally.settled == transcript.tally.total
    assert 0 < len(edge.accepted) < 2000
    assert edge.duplicates < WINDOW_LINES + FACT_EVERY_LINES


async def test_a_message_that_comes_twice_is_a_duplicate(tmp_path: Path, sink: Sink) -> None:
    write_log(tmp_path / "log", conversations=3, messages=100)
    (tmp_path / "log").write_bytes((tmp_path / "log").read_bytes() * 2)
    edge = FakeEdge()
    transcript = Transcript(tmp_path / "log", sink)
    await transcript.run(edge)

    assert (len(edge.accepted), edge.duplicates) == (100, 100)
    assert transcript.tally == Tally(total=200, settled=200, accepted=100)


async def test_a_log_that_is_gone_or_unreadable_is_typed(tmp_path: Path, sink: Sink) -> None:
    for path, code in ((tmp_path / "none", Code.NOT_FOUND), (tmp_path, Code.STORE_IO)):
        with pytest.raises(BusError) as caught:
            await Transcript(path, sink).run(FakeEdge())
        assert caught.value.code is code


BOT = """
from pathlib import Path
from shardline import Topology, run
from shardline.adapters.transcript import Transcript, open_sink

topology = Topology()


@topology.on("chat.message")
async def answer(ctx, message):
    raise AssertionError(message)


with open_sink(Path("sink.jsonl")) as sink:
    run(topology, store="bot.db", adapters=[Transcript(Path("none.jsonl"), sink)])
"""


def test_a_bot_over_a_log_that_is_missing_ends_at_once_and_names_it(tmp_path: Path) -> None:
    ended = run_forked(Script(BOT), timeout=60, folder=tmp_path)

    assert ended.returncode == 1
    assert "no log at none.jsonl" in ended.stderr


async def test_progress_is_reported_to_the_end(tmp_path: Path, sink: Sink) -> None:
    write_log(tmp_path / "log", conversations=10, messages=1000)
    seen: list[tuple[int, int]] = []
    transcript = Transcript(
        tmp_path / "log", sink, progress=lambda tally: seen.append((tally.settled, tally.total))
    )
    await transcript.run(FakeEdge())

    assert seen == sorted(seen)
    assert len(seen) >= 4
    assert seen[-1] == (1000, 1000)


async def test_a_send_is_one_line_of_the_sink(tmp_path: Path, sink: Sink) -> None:
    transcript = Transcript(tmp_path / "log", sink)
    outcome = await transcript.send(out("k1", text="1: ü\n\x1b[31m"))

    assert outcome == Sent(None)
    assert transcript.tally.sent == 1
    assert [json.loads(line) for line in (tmp_path / "sink").read_bytes().splitlines()] == [
        {"conversation": "7", "idempotency_key": "k1", "text": "1: ü\n\x1b[31m", "claim": 3}
    ]
    assert [line.claim for line in read_sink(tmp_path / "sink")] == [3]


async def test_a_send_can_be_looked_up(tmp_path: Path, sink: Sink) -> None:
    transcript = Transcript(tmp_path / "log", sink)
    await transcript.send(out("k1"))

    assert await transcript.reconcile(out("k1")) == Sent(None)
    assert isinstance(await transcript.reconcile(out("k2")), NotSent)
