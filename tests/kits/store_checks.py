"""What must hold of a store file after anything that happened to it."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import apsw

from shardline.storage.sqlite.chain import find_break
from shardline.storage.sqlite.reader import SqliteReader


def check_store(path: Path, *, shard_count: int = 16) -> set[str]:
    """Check integrity, offsets, and the chains of a store that nobody has open.

    Returns:
        The dedupe keys of its inbox.
    """
    database = apsw.Connection(str(path))
    try:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        places = cast(
            "list[tuple[str, int, int, int]]",
            database.execute(
                "SELECT topic, part, count(*), max(off) FROM inbox GROUP BY topic, part"
            ).fetchall(),
        )
        assert all(count == last + 1 for _, _, count, last in places), places
        reader = SqliteReader(database, shard_count, owned=False)
        for shard in range(shard_count):
            chain = reader.history(shard, 0, 1_000_000)
            assert find_break(chain) is None
            ((hseq, head),) = database.execute(
                "SELECT hseq, h FROM shard WHERE shard = ?", (shard,)
            ).fetchall()
            assert hseq == len(chain)
            assert not chain or head == chain[-1].h
        arrivals = database.execute(
            "SELECT identity FROM history WHERE kind = 'in' AND \"from\" = ''"
        ).fetchall()
        rows = database.execute("SELECT id FROM inbox").fetchall()
        assert sorted(cast("list[tuple[int]]", arrivals)) == sorted(cast("list[tuple[int]]", rows))
        keys = database.execute("SELECT dedupe_key FROM inbox").fetchall()
        return {cast("str", key) for (key,) in keys}
    finally:
        database.close()
