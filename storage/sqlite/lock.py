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
from .trouble import read_instance, write_line

_RETRY_S: Final = 0.01
_OWNER_HERE: Final = (
    "another owner in this very process: close that runtime first; one whose asyncio loop was closed under it ends "
    "when its thread opens a runtime again, or with the process"
)


@attrs.define(eq=False)
class OwnerLock:
    """A held lock on `<store>.lock`; released by `release`, or by the kernel when the process ends."""

    path: Path
    _descriptor: int | None
    _instance: int = 0

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
            owner = _OWNER_HERE if is_here else "another owner"
            raise BusError(Code.STORE_LOCKED, f"{store} has {owner}", path=str(store)) from error
        except OSError as error:
            os.close(descriptor)
            raise BusError(Code.STORE_IO, f"{path} cannot be locked: {error.strerror}") from error
        lock = cls(path, descriptor)
        _held.add(lock)
        with contextlib.suppress(OSError):
            lock._instance = read_instance(descriptor)
        lock.tell(None)
        return lock

    def note_opening(self, instance: int) -> bool:
        """Note the number of an opening.

        Returns:
            Whether it is a new one: the file has outlived those before, and a store that lost its log, or that an
            older copy has replaced, counts them again.
        """
        is_new = instance > self._instance
        self._instance = instance
        self.tell(None)
        return is_new

    def tell(self, trouble: Code | None) -> None:
        """Say beside the store what keeps its owner from writing. Where that fails too, the age of its note tells."""
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                write_line(self._descriptor, trouble, self._instance)

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
