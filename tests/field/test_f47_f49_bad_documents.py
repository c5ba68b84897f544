"""Field entries 47 to 49 where bytes come in: every door refuses the same inputs by code, and takes the next one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import apsw
import attrs
import pytest
import trio

from shardline import BusError, BusMessage, Context, Runtime, Topology
from shardline.actors.errors import Code
from shardline.actors.strict_json import loads
from shardline.actors.wire import message_from_wire, message_to_wire
from shardline.adapters.base import ChannelCaps, Edge, Inbound, Outbound, SendOutcome, Sent
from shardline.adapters.transcript import Transcript, open_sink
from shardline.adapters.transcript.reader import BadLine, parse_line
from shardline.runtime.control.verbs import Requeue, RowRef, read_verb
from shardline.storage.memory import open_memory
from shardline.testing import FakeChannel
from tests.kits.bad_input import BYTES
from tests.kits.bots import counting_bot, until_quiet
from tests.kits.controlled import decide, make_dead, query
from tests.kits.operated import operate
from tests.kits.words import make_message

GOOD = message_to_wire(attrs.evolve(make_message(), raw=None)).encode()


def as_text(read: Callable[[str], object]) -> Callable[[bytes], object]:
    """A door that takes text: bytes that are none come to it as their nearest."""
    return lambda data: read(data.decode("utf-8", "surrogateescape"))


DOORS: dict[str, Callable[[bytes], object]] = {
    "strict JSON": lambda data: loads(data, limit_bytes=2_100_000),
    "wire": message_from_wire,
    "control record": as_text(lambda args: read_verb("publish", args)),
}


@pytest.mark.parametrize("name", BYTES)
@pytest.mark.parametrize("door", DOORS)
def test_every_decoder_refuses_it_by_code(door: str, name: str) -> None:
    bad = BYTES[name]
    with pytest.raises(BusError) as refused:
        DOORS[door](bad.data)

    assert refused.value.code is bad.code
    if door != "control record" or "UTF-8" not in bad.words:
        assert bad.words in refused.value.message
    assert message_from_wire(GOOD).payload.text == "hi"


@pytest.mark.parametrize("name", BYTES)
def test_a_line_of_a_log_is_bad_with_its_reason(name: str) -> None:
    found = parse_line(7, BYTES[name].data)

    assert isinstance(found, BadLine)
    assert found.number == 7
    assert BYTES[name].words in found.reason or "longer than" in found.reason


def test_a_log_full_of_it_gives_its_good_lines(tmp_path: Path) -> None:
    lines: list[bytes] = []
    for number, bad in enumerate(BYTES.values()):
        good = {"conversation": 7, "seq": number, "sender": "a", "at": "09:14", "text": f"text {number}"}
        lines += [bad.data.replace(b"\n", b" "), json.dumps(good).encode()]
    log = tmp_path / "log"
    log.write_bytes(b"\n".join(lines))

    async def main() -> None:
        with open_sink(tmp_path / "sink") as sink:
            transcript = Transcript(log, sink)
            async with Runtime.open(
                counting_bot(), store=tmp_path / "bot.db", adapters=[transcript]
            ) as runtime:
                with trio.fail_after(30):
                    await runtime.wait_drained()
                assert transcript.tally.bad == len(BYTES)
                assert runtime.counters["handled"] == len(BYTES)

    trio.run(main)
    answers = [json.loads(line)["text"] for line in (tmp_path / "sink").read_text().splitlines()]
    assert answers == [f"{number + 1}: text {number}" for number in range(len(BYTES))]


@attrs.define
class Connection:
    """A channel that reads frames, one JSON message each, and answers each with a code; it never ends by input."""

    frames: list[bytes]
    answers: list[str] = attrs.field(factory=list[str])
    name: str = "ws"
    prefix: str = "ws"
    caps: ChannelCaps = ChannelCaps(linear=False)

    async def run(self, edge: Edge, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        for number, frame in enumerate(self.frames):
            try:
                message = message_from_wire(frame)
                await edge.accept(
                    Inbound(
                        platform_message_id=str(number), address="ann", text=message.payload.text, raw=frame
                    )
                )
            except BusError as error:
                self.answers.append(error.code)
            else:
                self.answers.append("accepted")

    async def send(self, out: Outbound) -> SendOutcome:
        await trio.lowlevel.checkpoint()
        return Sent(None)


async def test_the_next_frame_on_the_same_connection_is_taken(autojump_clock: trio.testing.MockClock) -> None:
    frames = [frame for bad in BYTES.values() for frame in (bad.data, GOOD)]
    connection = Connection(frames)
    async with Runtime.open(counting_bot(), store=open_memory(), adapters=[connection]) as runtime:
        await until_quiet(runtime)

        assert connection.answers == [answer for bad in BYTES.values() for answer in (bad.code, "accepted")]
        assert runtime.counters["handled"] == len(BYTES)
        assert "crashes" not in runtime.counters


def test_a_control_record_of_it_is_refused_and_the_next_one_carried_out(tmp_path: Path) -> None:
    """Left by another process, straight into the table, beside a live owner."""
    store = tmp_path / "bot.db"
    make_dead(store, 1)
    database = apsw.Connection(str(store))
    verbs = ("publish", "requeue", "purge", "resolve", "cancel", "drop")
    for number, bad in enumerate(BYTES.values()):
        # CAST: text in the table whatever the bytes are.
        database.execute(
            "INSERT INTO control (id, verb, args, actor, created_at, status)"
            " VALUES (?, ?, CAST(? AS TEXT), 'somebody', 1, 'waiting')",
            (f"bad-{number}", verbs[number % len(verbs)], bad.data),
        )
    database.close()

    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        ctx.reply("re " + message.payload.text)

    async def main() -> None:
        async with Runtime.open(topology, store=store, adapters=[FakeChannel()]) as runtime:
            with trio.fail_after(30):
                done = await trio.to_thread.run_sync(decide, store, Requeue((RowRef("in", 1),)))
                assert done.status == "done"
                await until_quiet(runtime)
                assert "crashes" not in runtime.counters

    trio.run(main)
    codes = query(store, "SELECT status, code FROM control WHERE id LIKE 'bad-%'")
    assert len(codes) == len(BYTES)
    assert {status for status, _ in codes} == {"refused"}
    assert {code for _, code in codes} <= {Code.INVALID_MESSAGE, Code.TOO_LARGE}


@pytest.mark.parametrize("name", BYTES)
def test_the_command_says_it_in_one_line_and_stores_nothing(tmp_path: Path, name: str) -> None:
    store, file = tmp_path / "bot.db", tmp_path / "message.json"
    make_dead(store, 1)
    file.write_bytes(BYTES[name].data)
    ended = operate("publish", "--message", file, "--store", store)

    assert ended.exit_code == 2
    assert ended.stdout == ""
    assert ended.stderr.startswith(f"shardline: {BYTES[name].code}: ")
    assert ended.stderr.count("\n") == 1
    assert query(store, "SELECT count(*) FROM control") == [(0,)]
