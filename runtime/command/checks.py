"""The checks of `shardline doctor`: each gives lines that say what is, how bad that is, and what to do."""

from __future__ import annotations

import enum
import platform
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import apsw
import attrs

from ...storage.sqlite.health import integrity, is_wal, log_bytes, newest_time, open_files
from ...storage.sqlite.look import Look
from ...storage.sqlite.migrate import load_migrations
from ...storage.sqlite.mounts import file_system_of, is_unsafe
from ...storage.sqlite.owner import Owner
from ...storage.sqlite.settings import MAX_LOG_PAGES
from ...storage.sqlite.verify import verify
from .output import counted, when

MIB: Final = 1024 * 1024
_LOG_BYTES: Final = 2 * MAX_LOG_PAGES * 4096
_CLOCK_US: Final = 2_000_000
_NO_ROOM: Final = 100 * MIB
_LITTLE_ROOM: Final = 1024 * MIB


class Outcome(enum.StrEnum):
    """How bad a finding is."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@attrs.frozen
class Finding:
    """One line; `action` is empty where nothing is to do."""

    name: str
    outcome: Outcome
    text: str
    action: str = ""


def check_place(store: Path) -> Iterator[Finding]:
    """The file system, its room, the files' modes."""
    kind = file_system_of(store)
    if kind is None:
        yield Finding("file system", Outcome.WARN, "cannot be told here", "Keep the store on a local disk.")
    elif is_unsafe(kind):
        yield Finding(
            "file system", Outcome.FAIL, f"{kind}: a log is not safe there", "Move the store to a local disk."
        )
    else:
        yield Finding("file system", Outcome.OK, kind)
    free = shutil.disk_usage(store.parent).free
    need = max(_LITTLE_ROOM, store.stat().st_size // 4)
    room = f"{free // MIB:,} MiB free"
    if free < _NO_ROOM:
        yield Finding("room", Outcome.FAIL, room, "Free space: intake stops when the disk is full.")
    elif free < need:
        yield Finding("room", Outcome.WARN, room, f"Free space up to {need // MIB:,} MiB.")
    else:
        yield Finding("room", Outcome.OK, room)
    wide = open_files(store)
    for file in wide:
        yield Finding(
            "files", Outcome.WARN, f"{file.path.name} has mode {file.mode:04o}", f"chmod 600 {file.path}"
        )
    if not wide:
        yield Finding("files", Outcome.OK, "mode 0600")


def check_versions(schema: int | None) -> Iterator[Finding]:
    """What runs here, and the schema against it."""
    python = ".".join(map(str, sys.version_info[:3]))
    yield Finding(
        "versions",
        Outcome.OK,
        f"Python {python}, SQLite {apsw.sqlite_lib_version()}, apsw {apsw.apsw_version()}, {platform.system()}",
    )
    newest = load_migrations()[-1].number
    if schema is None:
        return
    if schema < newest:
        text = f"{schema}, this version has {newest}"
        yield Finding("schema", Outcome.FAIL, text, "Stop the bot, then `shardline migrate`.")
    elif schema > newest:
        text = f"{schema}, this version knows {newest}"
        yield Finding("schema", Outcome.FAIL, text, "Run the version that wrote it, or a later one.")
    else:
        yield Finding("schema", Outcome.OK, str(schema))


def check_log(store: Path) -> Iterator[Finding]:
    """The journal mode and the length of the log."""
    if not is_wal(store):
        yield Finding(
            "log", Outcome.FAIL, "not in WAL mode", "Stop the bot, find out who changed it; opening sets it."
        )
        return
    length = log_bytes(store)
    text = f"WAL, {length // MIB:,} MiB"
    if length > _LOG_BYTES:
        yield Finding("log", Outcome.WARN, text, "A reader keeps it from being begun anew: end long reads.")
    else:
        yield Finding("log", Outcome.OK, text)


def check_owner(owner: Owner, line: str) -> Iterator[Finding]:
    """Who has the store open; `line` says it for people."""
    if owner.held == "unknown":
        yield Finding("owner", Outcome.WARN, line, "Ask on its host.")
    elif owner.held == "no" and owner.last is not None and not owner.last.clean:
        action = "Start the bot: it takes up what was under way."
        yield Finding("owner", Outcome.WARN, line, action)
    else:
        yield Finding("owner", Outcome.OK, line)


def check_clock(look: Look, now_us: int) -> Iterator[Finding]:
    """No stored time lies ahead of this machine's clock."""
    newest = newest_time(look)
    if newest is not None and newest > now_us + _CLOCK_US:
        text = f"the store knows {when(newest)}, which is still to come"
        yield Finding("clock", Outcome.WARN, text, "Set the clock: retries wait until it has caught up.")
    else:
        yield Finding("clock", Outcome.OK, "no stored time lies ahead")


def check_content(look: Look, *, is_full: bool) -> Iterator[Finding]:
    """What SQLite and the chains say of the content."""
    wrong = integrity(look, is_full=is_full)
    name = "integrity" if is_full else "quick check"
    for text in wrong:
        yield Finding(name, Outcome.FAIL, text, "Keep a copy of the file, then restore a backup.")
    if not wrong:
        yield Finding(name, Outcome.OK, "sound")
    if not is_full:
        return
    verdict = verify(look)
    if not verdict.findings:
        yield Finding("history", Outcome.OK, f"{verdict.rows:,} rows in {look.shard_count} chains are whole")
        return
    worst = verdict.findings[0]
    place = worst.row or f"shard {worst.shard}, history row {worst.hseq}"
    count = len(verdict.findings) + verdict.more
    more = f" and {count - 1:,} more" if count > 1 else ""
    action = "Rows were changed by hand or lost: `shardline outbox verify` names them; compare a backup."
    yield Finding("history", Outcome.FAIL, f"{place} {worst.text}{more}", action)


def check_decisions(uncertain: int, dead: int) -> Iterator[Finding]:
    """What waits for a person."""
    if uncertain:
        action = (
            "`shardline outbox list state=uncertain`, look into the chats, then `shardline outbox resolve`."
        )
        yield Finding("uncertain", Outcome.WARN, counted(uncertain, "send"), action)
    else:
        yield Finding("uncertain", Outcome.OK, "none")
    if dead:
        action = "`shardline dlq list`, mend the cause, then `shardline dlq requeue` or `purge`."
        what = "1 message or send" if dead == 1 else f"{dead:,} messages and sends"
        yield Finding("dead", Outcome.WARN, what, action)
    else:
        yield Finding("dead", Outcome.OK, "none")


__all__ = [
    "Finding",
    "Outcome",
    "check_clock",
    "check_content",
    "check_decisions",
    "check_log",
    "check_owner",
    "check_place",
    "check_versions",
]
