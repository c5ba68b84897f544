"""A SQLite VFS whose files fail on demand: the N-th sync or write of a store's log, once, a few times, or for ever."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING, Literal

import apsw
import attrs

if TYPE_CHECKING:
    from typing_extensions import Buffer

Operation = Literal["sync", "write", "any"]


@attrs.frozen
class Fault:
    """What the files of one kind meet.

    Attributes:
        operation: What fails; "any" counts opens, looks whether a file is there, deletions, locks, reads, writes,
            syncs, truncations and looks at the size together.
        suffix: Of the files' names: "-wal" for the log, "db" for the database itself.
        nth: The first call that fails, 1 is the next.
        count: How many calls fail; None is for ever.
        error: What SQLite is told.
        late: The call does its work, and fails then.
    """

    operation: Operation
    suffix: str = "-wal"
    nth: int = 1
    count: int | None = 1
    error: type[apsw.Error] = apsw.IOError
    late: bool = False


class FaultyVfs(apsw.VFS):
    """The usual VFS with faults. One at a time; `calls` counts since the last `arm`, `met` the faults met.

    A sync that does not fail does nothing: no test cuts the power, and a killed process loses no written byte.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name, base="")
        self.name = name
        self.calls: Counter[tuple[str, str]] = Counter()
        self.met = 0
        self._fault: Fault | None = None
        self._lock = threading.Lock()

    def arm(self, fault: Fault | None) -> None:
        """Begin counting anew, towards `fault`; None heals the disk."""
        with self._lock:
            self.calls.clear()
            self._fault = fault

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> FaultyFile:  # noqa: N802
        path = name.filename() if isinstance(name, apsw.URIFilename) else name or ""
        if self.is_due("any", path, late=False):
            raise apsw.CantOpenError("a fault of the test")
        return FaultyFile(self, name, flags)

    def xAccess(self, pathname: str, flags: int) -> bool:  # noqa: N802
        if self.is_due("any", pathname, late=False):
            raise self.error()
        return super().xAccess(pathname, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        if self.is_due("any", filename, late=False):
            raise self.error()
        super().xDelete(filename, syncdir)

    def is_due(self, operation: Operation, path: str, *, late: bool) -> bool:
        """Count a call, at its start, and say whether it is to fail at this end of it."""
        with self._lock:
            fault = self._fault
            if fault is None or fault.operation != operation or not path.endswith(fault.suffix):
                return False
            key = (operation, fault.suffix)
            if not late:
                self.calls[key] += 1
            number = self.calls[key]
            due = number >= fault.nth and (fault.count is None or number < fault.nth + fault.count)
            if due and fault.late is late:
                self.met += 1
                return True
            return False

    def error(self) -> apsw.Error:
        """What an armed fault says."""
        fault = self._fault
        return (apsw.IOError if fault is None else fault.error)("a fault of the test")


class FaultyFile(apsw.VFSFile):
    """One file of a `FaultyVfs`."""

    def __init__(self, vfs: FaultyVfs, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        super().__init__("", name, flags)
        self._vfs = vfs
        self._path = name.filename() if isinstance(name, apsw.URIFilename) else name or ""

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._meet("sync", late=False)
        self._meet("sync", late=True)

    def xWrite(self, data: Buffer, offset: int) -> None:  # noqa: N802
        self._meet("write", late=False)
        super().xWrite(data, offset)
        self._meet("write", late=True)

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802
        self._meet("any", late=False)
        return super().xRead(amount, offset)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        self._meet("any", late=False)
        super().xTruncate(newsize)

    def xLock(self, level: int) -> None:  # noqa: N802
        self._meet("any", late=False)
        super().xLock(level)

    def xFileSize(self) -> int:  # noqa: N802
        self._meet("any", late=False)
        return super().xFileSize()

    def _meet(self, operation: Operation, *, late: bool) -> None:
        if operation != "any":
            self._meet("any", late=late)
        if self._vfs.is_due(operation, self._path, late=late):
            raise self._vfs.error()
