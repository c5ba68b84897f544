"""The owner's lock: one open store file has one owner, also within a process."""

from __future__ import annotations

import contextlib
import os
import time
import weakref
from pathlib import Path
from typing import Final

import attrs

from ...actors.errors import BusError, Code
from ...actors.system import after_fork_in_child, lock_file, unlock_file
from .files import open_private
from .trouble import Mark, read_mark, write_line

_RETRY_S: Final = 0.01
_NOTE_S: Final = 5.0
"""How far the store is, is noted beside it no more often: what a commit costs is its own."""
_OWNER_HERE: Final = (
    "another owner in this very process: close that runtime first; one whose asyncio loop was closed under it ends "
    "when its thread opens a runtime again, or with the process"
)


@attrs.define(eq=False)
class OwnerLock:
    """A held lock on `<store>.lock`; released by `release`, or by the kernel when the process ends."""

    path: Path
    _descriptor: int | None
    _mark: Mark = Mark()
    _trouble: Code | None = None
    _noted_s: float = 0.0

    @classmethod
    def take(cls, store: Path, *, wait_s: float = 0.0) -> OwnerLock:
        """Take the lock of a store.

        Args:
            store: The store's file.
            wait_s: Seconds to try again while another owner has it; it blocks.
        Raises:
            BusError: STORE_LOCKED, another owner has it; UNSAFE_FILESYSTEM or STORE_IO, the lock file is unusable.
        """
        due_s = time.monotonic() + wait_s
        while True:
            try:
                return cls._take_now(store)
            except BusError as error:
                if error.code is not Code.STORE_LOCKED or time.monotonic() >= due_s:
                    raise
            time.sleep(_RETRY_S)

    @classmethod
    def _take_now(cls, store: Path) -> OwnerLock:
        path = store.with_name(store.name + ".lock")
        descriptor = open_private(path)
        try:
            lock_file(descriptor)
        except BlockingIOError as error:
            is_here = _is_held_here(descriptor)
            os.close(descriptor)
            owner = _OWNER_HERE if is_here else "another owner: `shardline status` names its process"
            raise BusError(Code.STORE_LOCKED, f"{store} has {owner}", path=str(store)) from error
        except OSError as error:
            os.close(descriptor)
            raise BusError(Code.STORE_IO, f"{path} cannot be locked: {error.strerror}") from error
        lock = cls(path, descriptor)
        _held.add(lock)
        with contextlib.suppress(OSError):
            lock._mark = read_mark(descriptor)
        lock.tell(None)
        return lock

    def note_opening(self, mark: Mark) -> bool:
        """Note how far the store is behind an opening.

        Returns:
            Whether that is further than was noted: the file has outlived those before, and a store that lost its log,
            or that an older copy has replaced, counts from there again.
        """
        is_further = self._mark.is_behind(mark)
        self._mark = mark
        self.tell(None)
        return is_further

    def note_commit(self, commit_seq: int) -> None:
        """Note a commit that is on disk; beside the store now and then, and where the opening ends."""
        self._mark = Mark(self._mark.instance, commit_seq)
        # Since when there is trouble, the file's own time says.
        if self._trouble is None and time.monotonic() >= self._noted_s + _NOTE_S:
            self.tell(None)

    def tell(self, trouble: Code | None) -> None:
        """Say beside the store what keeps its owner from writing. Where that fails too, the age of its note tells."""
        self._trouble = trouble
        self._noted_s = time.monotonic()
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                write_line(self._descriptor, trouble, self._mark)

    def release(self) -> None:
        """Give the lock back; a second call does nothing. The file stays, or two owners could each lock their own."""
        descriptor, self._descriptor = self._descriptor, None
        _held.discard(self)
        if descriptor is not None:
            # Said aloud, because a forked child may hold a copy of the descriptor.
            unlock_file(descriptor)
            os.close(descriptor)

    def is_on(self, descriptor: int) -> bool:
        """Whether this is the lock on the file of `descriptor`."""
        return self._descriptor is not None and os.path.sameopenfile(self._descriptor, descriptor)

    def has_another(self) -> bool:
        """Whether a runtime of this process holds the same store by a lock file that is not there any more."""
        return any(
            lock is not self and lock._descriptor is not None and lock.path == self.path
            for lock in list(_held)
        )

    def forget(self) -> None:
        """Close the copy of a lock that a forked child inherited; its parent keeps it."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


# A lock belongs to the open file, which a fork shares: without this a child that outlives its parent keeps the store.
_held: weakref.WeakSet[OwnerLock] = weakref.WeakSet()


def _is_held_here(descriptor: int) -> bool:
    """Whether the owner of this lock file is a runtime of this process."""
    return any(lock.is_on(descriptor) for lock in list(_held))


def _forget_all() -> None:
    for lock in list(_held):
        lock.forget()


after_fork_in_child(_forget_all)
