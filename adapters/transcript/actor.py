"""The transcript channel: reads a chat log as if it were being said now, and writes the answers to a sink file."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import trio

from ...actors.errors import BusError, Code, Permanence
from ...runtime.channel import ChannelCaps, Edge, NotSent, Outbound, SendOutcome, Sent
from .intake import FACT, WORKERS, Intake, Tally
from .interleave import Segment, plan, reading_order
from .position import Position, Watermark, position_from_fact
from .reader import PREFIX, BadLine, ChatLine, ChatLog, open_log
from .sink import Sink
from .sink_lines import SinkLine

_READ_LINES = 256
_READ_BYTES = 1 << 20
_KEPT_BAD_LINES = 10
_REPORT_SENDS = 64


def _ignore(tally: Tally) -> None:
    pass


@contextmanager
def _typed_errors(path: Path) -> Generator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise BusError(Code.NOT_FOUND, f"no log at {path}", path=str(path)) from error
    except OSError as error:
        raise BusError(
            Code.STORE_IO, f"the log {path} cannot be read: {error.strerror}", path=str(path)
        ) from error


class Transcript:
    """A channel that reads a log file and answers into a sink file.

    Every line of the log is one message: conversation `demo:<conversation>`, platform id `<conversation>:<seq>`, sent
    at HH:MM of 2000-01-01 UTC. `run` ends when the log ends, and goes on where the run before stood. The sink can be
    asked whether it holds a send, so a crash leaves no uncertain one.

    Args:
        log: The log, plain or gzip (see `reader`).
        sink: Where answers go; opened and closed by the caller, open as long as the runtime is.
        as_is: Read in the file's order, not the conversations in turn.
        progress: Called with the tally after every few hundred lines read and every few dozen written.
    """

    name = "transcript"
    prefix = PREFIX
    # No text is split: a sink line takes any text a message can hold.
    caps = ChannelCaps(max_text=1 << 21, reconciles=True, linear=True, waits=True, concurrency=256)

    def __init__(
        self, log: Path, sink: Sink, *, as_is: bool = False, progress: Callable[[Tally], None] = _ignore
    ) -> None:
        self.tally = Tally()
        self._path = log
        self._sink = sink
        self._as_is = as_is
        self._progress = progress

    async def run(self, edge: Edge, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Offer every line that is not known yet; return at the end of the log as it stood at the start.

        Raises:
            BusError: NOT_FOUND, STORE_IO, the log cannot be read; what `edge.accept` raises.
        """
        # A log that is missing at the start ends the runtime at once, with its path, instead of round after round.
        with _typed_errors(self._path):
            await trio.Path(self._path).stat()
        task_status.started()
        stored = position_from_fact(edge.fact(FACT))
        tally = self.tally
        with await self._open(stored) as log:
            segments = plan(log, stored, as_is=self._as_is)
            begin = segments[0].begin
            tally.total = log.lines + (log.tail is not None)
            tally.known = tally.settled = segments[0].first + begin.low
            tally.bad = tally.known_bad = begin.bad
            tally.first_bad.clear()
            for segment in segments:
                await self._read(edge, log, segment)
            if log.tail is not None:
                self._refuse(edge, log.tail)
        self._progress(tally)
        # A thread that reads is waited for, also by a run that was cancelled meanwhile: that one does not just end.
        await trio.lowlevel.checkpoint_if_cancelled()

    async def send(self, out: Outbound) -> SendOutcome:
        """Append one line; returns after its fsync."""
        outcome = await self._sink.append(
            SinkLine(
                conversation=out.address, idempotency_key=out.idempotency_key, text=out.text, claim=out.claim
            )
        )
        if isinstance(outcome, Sent):
            self.tally.sent += 1
            if self.tally.sent % _REPORT_SENDS == 0:
                self._progress(self.tally)
        return outcome

    async def reconcile(self, out: Outbound) -> Sent | NotSent:
        """Look the send up in the sink by its key."""
        if await self._sink.find(out.idempotency_key):
            return Sent(None)
        return NotSent(Code.NOT_FOUND, Permanence.TRANSIENT, text="not in the sink")

    async def _open(self, stored: Position | None) -> ChatLog:
        prefix_bytes = 0 if stored is None else stored.end

        def opened() -> ChatLog:
            return open_log(self._path, prefix_bytes=prefix_bytes, check=trio.from_thread.check_cancelled)

        with _typed_errors(self._path):
            return await trio.to_thread.run_sync(opened)

    async def _read(self, edge: Edge, log: ChatLog, segment: Segment) -> None:
        mark = Watermark(low=segment.begin.low, bad=self.tally.bad)
        intake = Intake(edge, segment.begin, mark, self.tally)
        places = enumerate(reading_order(log, segment), segment.begin.low)
        async with trio.open_nursery() as nursery:
            for _ in range(min(WORKERS, segment.lines - segment.begin.low)):
                nursery.start_soon(intake.work, nursery.cancel_scope)
            while batch := await trio.to_thread.run_sync(_read_batch, log, places):
                for place, line in batch:
                    if isinstance(line, BadLine):
                        self._refuse(edge, line)
                        mark.settle(place, bad=True)
                    else:
                        await intake.put(place, line)
                self._progress(self.tally)
            intake.end()
        if intake.failed is not None:
            raise intake.failed

    def _refuse(self, edge: Edge, line: BadLine) -> None:
        edge.refused(line.reason, where=f"line {line.number}")
        self.tally.settled += 1
        self.tally.bad += 1
        if len(self.tally.first_bad) < _KEPT_BAD_LINES:
            self.tally.first_bad.append(line)


def _read_batch(log: ChatLog, places: Iterator[tuple[int, int]]) -> list[tuple[int, ChatLine | BadLine]]:
    """Read the next lines, until they are many or long."""
    batch: list[tuple[int, ChatLine | BadLine]] = []
    size_bytes = 0
    for place, index in places:
        batch.append((place, log.read(index)))
        size_bytes += log.starts[index + 1] - log.starts[index]
        if len(batch) == _READ_LINES or size_bytes >= _READ_BYTES:
            break
    return batch


__all__ = ["Transcript"]
