"""Heads of a history in a file of their own, to be kept elsewhere."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import attrs

from ...actors.errors import BusError
from ...actors.instants import rfc3339_from_us
from ...actors.plain import Plain
from ...actors.strict_json import loads
from ...actors.system import sync_file
from ...storage.sqlite.verify import Head
from .problem import Problem

_FORMAT = "shardline-heads-1"
_MAX_BYTES = 16 * 1024 * 1024
_HASH_BYTES = 32


@attrs.frozen
class KeptHeads:
    """What a file of heads says: the store, and where each of its chains ended then."""

    store: str
    heads: Mapping[int, Head]


def read_heads(path: Path) -> KeptHeads:
    """Read a file that `write_heads` wrote.

    Raises:
        Problem: exit code 2, there is none, or it is something else.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise Problem(f"--head {path} cannot be read: {error.strerror}") from error
    try:
        found = cast("dict[str, Plain]", loads(data, limit_bytes=_MAX_BYTES))
        if found["format"] != _FORMAT:
            raise Problem(f"--head {path} is of format {found['format']!r}; this version reads {_FORMAT}")
        heads = {
            int(shard): Head(cast("int", hseq), bytes.fromhex(cast("str", h)))
            for shard, (hseq, h) in cast("dict[str, tuple[Plain, Plain]]", found["heads"]).items()
        }
        if not all(type(head.hseq) is int and len(head.h) == _HASH_BYTES for head in heads.values()):
            raise ValueError("no heads")
        return KeptHeads(cast("str", found["store"]), heads)
    except (BusError, ValueError, TypeError, LookupError, AttributeError) as error:
        raise Problem(f"--head {path} is no file of heads; `outbox verify --save-head` writes one") from error


def write_heads(path: Path, store: str, heads: Mapping[int, Head], *, now_us: int) -> None:
    """Write a file of heads, whole or not at all.

    Raises:
        Problem: exit code 2, it cannot be written.
    """
    record = {
        "format": _FORMAT,
        "store": store,
        "taken_at": rfc3339_from_us(now_us),
        "heads": {str(shard): [head.hseq, head.h.hex()] for shard, head in sorted(heads.items())},
    }
    try:
        number, name = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}.")
        try:
            with os.fdopen(number, "w", encoding="ascii") as file:
                json.dump(record, file, indent=1)
                file.write("\n")
                file.flush()
                sync_file(file.fileno())
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise Problem(f"--save-head {path} cannot be written: {error.strerror}") from error


__all__ = ["KeptHeads", "read_heads", "write_heads"]
