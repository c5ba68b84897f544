"""The sink file: append-only, one line a send, on disk before the send counts as sent.

Lines that wait at the same time share one write and one fsync. Whoever comes first writes for all that have come by
then; meanwhile the next batch collects, and its first line's sender writes that one.

What a crash leaves is a torn last line at most; opening cuts it off. What a failed write leaves is cut off at once,
and the lines are certainly not sent; where even that fails their result is unknown until `find` has settled the file.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from types import TracebackType
from typing import Self

import trio

from ...actors.errors import BusError, Code, Permanence
from ...actors.system import lock_file, open_regular, read_at, sync_file, sync_folder
from ...runtime.channel import NotSent, SendOutcome, Sent, Uncertain
from .sink_lines import SinkLine, is_torn, key_of, render_line

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
# More than the longest line: a message's text is at most 1 MiB, and six times that with every character escaped.
_MAX_LINE_BYTES = 8 << 20


class Disk:
    """The calls a sink makes on its open file; tests put failing ones in their place."""

    def write(self, fd: int, data: bytes) -> None:
        """Append all of `data`."""
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(fd, rest) :]

    def sync(self, fd: int) -> None:
        sync_file(fd)

    def truncate(self, fd: int, size: int) -> None:
        os.ftruncate(fd, size)


class _Batch:
    """Lines written together, and who waits for them."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, bytes]] = []
        self.waiting = trio.lowlevel.ParkingLot()
        self.ended = trio.Event()
        self.failed: NotSent | Uncertain | None = Uncertain("the writer did not end")


class Sink:
    """An open sink file. Get one from `open_sink`; close it after the last send.

    Attributes:
        path: Where it is.
        known_lines: How many lines it held when it was opened.
    """

    def __init__(self, path: Path, *, fd: int, size: int, lines: int, keys: set[str], disk: Disk) -> None:
        self.path = path
        self.known_lines = lines
        self._fd = fd
        self._size = size
        self._keys = keys
        self._disk = disk
        self._unsettled = False
        self._writing: _Batch | None = None
        self._next = _Batch()
        self._limiter = trio.CapacityLimiter(1)

    async def append(self, line: SinkLine) -> SendOutcome:
        """Write a line and wait for its fsync.

        Returns:
            Sent; NotSent, transient, if it certainly is not in the file; Uncertain if nobody knows.
        """
        batch, entry = self._next, (line.idempotency_key, render_line(line))
        batch.lines.append(entry)
        if self._writing is not None:
            try:
                await batch.waiting.park()
            except trio.Cancelled:
                if batch is self._next:
                    # Not begun: the line must not be written after its send is given up.
                    batch.lines.remove(entry)
                raise
        if not batch.ended.is_set():
            await self._write(batch)
        return Sent(None) if batch.failed is None else batch.failed

    async def find(self, key: str) -> bool:
        """Whether a line with this key is in the file, for certain.

        Raises:
            BusError: STORE_IO, the file cannot be read or settled now.
        """
        if self._writing is not None and any(key == written for written, _ in self._writing.lines):
            await self._writing.ended.wait()
        if self._unsettled:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(self._settle, limiter=self._limiter)
        else:
            await trio.lowlevel.checkpoint()
        return key in self._keys

    def close(self) -> None:
        """Close the file and give up its lock; a second time does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def _write(self, batch: _Batch) -> None:
        self._writing, self._next = batch, _Batch()
        try:
            # A write is never given up half way: its lines would be nobody's.
            with trio.CancelScope(shield=True):
                batch.failed = await trio.to_thread.run_sync(self._append, batch.lines, limiter=self._limiter)
            if batch.failed is None:
                self._keys.update(key for key, _ in batch.lines)
        finally:
            batch.ended.set()
            batch.waiting.unpark_all()
            # By who is parked, not by lines: a sender that is being cancelled has left the lot but not yet its line.
            self._writing = self._next if self._next.waiting else None
            self._next.waiting.unpark()

    def _append(self, lines: list[tuple[str, bytes]]) -> NotSent | Uncertain | None:
        """On the writer's thread: None if all lines are on disk."""
        data = b"".join(line for _, line in lines)
        try:
            if self._unsettled:
                self._settle()
        except BusError as error:
            return NotSent(error.code, Permanence.TRANSIENT, text=error.message)
        try:
            self._disk.write(self._fd, data)
            self._disk.sync(self._fd)
        except OSError as error:
            return self._after_failure(error)
        self._size += len(data)
        return None

    def _after_failure(self, error: OSError) -> NotSent | Uncertain:
        self._unsettled = True
        try:
            self._disk.truncate(self._fd, self._size)
            self._disk.sync(self._fd)
        except OSError:
            return Uncertain(f"{type(error).__name__}: {error.strerror}")
        self._unsettled = False
        code = Code.STORE_FULL if error.errno in _FULL else Code.STORE_IO
        return NotSent(code, Permanence.TRANSIENT, text=f"the sink cannot be written: {error.strerror}")

    def _settle(self) -> None:
        """Find out what a failed write left: whole lines count, a torn one is cut off."""
        try:
            self._disk.sync(self._fd)
            end = os.fstat(self._fd).st_size
            data = read_at(self._fd, end - self._size, self._size)
            whole = data[: data.rfind(b"\n") + 1]
            found = [key_of(line) for line in whole.splitlines(keepends=True)]
            if self._size + len(whole) != end:
                self._disk.truncate(self._fd, self._size + len(whole))
                self._disk.sync(self._fd)
        except OSError as error:
            raise BusError(
                Code.STORE_IO, f"the sink cannot be settled: {error.strerror}", path=str(self.path)
            ) from error
        self._keys.update(key for key in found if key is not None)
        self._size += len(whole)
        self._unsettled = False


def open_sink(path: Path, *, disk: Disk | None = None) -> Sink:
    """Open a sink file, or make it, and cut off a torn last line. Blocks: for the start, before the runtime opens.

    Args:
        path: A regular file of ours, or none yet; made with mode 0600.
        disk: The file calls to use.
    Raises:
        BusError: STORE_MISMATCH, it is a link, no regular file, or a file that holds other things (it is left as it
            is); STORE_LOCKED, another process writes it; STORE_IO.
    """
    existed = path.exists()
    try:
        fd = open_regular(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.EISDIR, errno.ENXIO}:
            raise BusError(
                Code.STORE_MISMATCH, f"the sink {path} is no regular file", path=str(path)
            ) from error
        raise BusError(
            Code.STORE_IO, f"the sink {path} cannot be opened: {error.strerror}", path=str(path)
        ) from error
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise BusError(Code.STORE_MISMATCH, f"the sink {path} is no regular file", path=str(path))
        _lock(fd, path)
        try:
            if not existed:
                sync_folder(path.parent)
            size, lines, keys = _read(fd, path)
            if os.fstat(fd).st_size != size:
                os.ftruncate(fd, size)
                sync_file(fd)
        except OSError as error:
            raise BusError(Code.STORE_IO, f"the sink {path}: {error.strerror}", path=str(path)) from error
    except BaseException:
        os.close(fd)
        raise
    return Sink(path=path, fd=fd, size=size, lines=lines, keys=keys, disk=disk or Disk())


def _lock(fd: int, path: Path) -> None:
    try:
        lock_file(fd)
    except OSError as error:
        raise BusError(
            Code.STORE_LOCKED, f"another process writes the sink {path}", path=str(path)
        ) from error


def _read(fd: int, path: Path) -> tuple[int, int, set[str]]:
    """The size of the whole lines, how many they are, and their keys."""
    keys: set[str] = set()
    size = lines = 0
    with os.fdopen(os.dup(fd), "rb") as file:
        file.seek(0)
        while data := file.readline(_MAX_LINE_BYTES):
            key = key_of(data)
            if key is None:
                break
            keys.add(key)
            size += len(data)
            lines += 1
        else:
            return size, lines, keys
        if file.read(1) or not is_torn(data):
            raise BusError(
                Code.STORE_MISMATCH,
                f"line {lines + 1} of {path} is no line of a sink; take another file, or move this one away",
                path=str(path),
                line=lines + 1,
            )
    return size, lines, keys


__all__ = ["Disk", "Sink", "open_sink"]
