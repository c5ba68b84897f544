"""Whether the history of a store is whole: its chains, its anchors, heads kept elsewhere, and the rows themselves.

One pass over the history in the order it was written. Nothing here writes to the store; beside a live owner what is
appended after the pass began is left for the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, Literal, cast

import apsw
import attrs

from ..port import HistoryRow
from .chain import FIRST_HEAD, Linker, follows
from .look import Look
from .reader import HISTORY_COLUMNS, read_history
from .rows import Row
from .verify_rows import LastStates, StateFault

Fault = Literal["changed", "missing", "reordered", "cut_off", "head", "anchor", "kept_head", "row"]

_PAGE_ROWS: Final = 2_000
_MOST_FINDINGS: Final = 1_000
_PAGE: Final = f"SELECT {HISTORY_COLUMNS} FROM history WHERE id > ? AND id <= ? ORDER BY id LIMIT ?"  # noqa: S608


@attrs.frozen
class Head:
    """Where a shard's chain ends: its last row's number and hash."""

    hseq: int
    h: bytes


@attrs.frozen(kw_only=True)
class Finding:
    """One place where the history and the store disagree.

    Attributes:
        fault: `changed`, a row does not follow from the one before it; `missing`, rows are not there; `reordered`, a
            row stands behind later ones; `cut_off`, the last rows are not there; `head`, the stored head is another
            row's; `anchor`, a row is not the one its anchor names; `kept_head`, a head kept elsewhere is not in the
            chain; `row`, a message or send is not as its history left it.
        shard, hseq: The place in the chain; `hseq` 0 where it is none.
        row: The message or send, such as `out-7`, where the fault is `row`.
    """

    fault: Fault
    shard: int
    hseq: int
    text: str
    row: str | None = None


@attrs.frozen(kw_only=True)
class Verdict:
    """What a pass found.

    Attributes:
        rows: History rows looked at.
        pruned: Rows below the oldest one kept, over all shards.
        unproven: Heads kept elsewhere whose row is pruned and named by no anchor: they prove nothing any more.
        heads: Of the shards as the pass began.
        findings: At most 1,000; `more` counts the rest.
    """

    rows: int
    pruned: int
    unproven: int
    heads: Mapping[int, Head]
    findings: tuple[Finding, ...]
    more: int


@attrs.define
class _Chain:
    """How far a shard's chain is known."""

    hseq: int = 0
    h: bytes = FIRST_HEAD
    pruned: int = 0
    gaps: dict[int, int] = attrs.Factory(dict[int, int])
    """First missing row -> the last one of the gap."""


def verify(
    look: Look,
    kept: Mapping[int, Head] | None = None,
    *,
    progress: Callable[[int, int], None] = lambda _done, _of: None,
) -> Verdict:
    """Check the whole history.

    Args:
        look: At the store.
        kept: Heads that were kept elsewhere, by shard.
        progress: Told how many rows are done, of about how many.
    Raises:
        BusError: as `Look.read`.
    """
    return look.read(lambda db: _Pass(db, look.shard_count, kept or {}, progress).run())


class _Pass:
    """One pass; made anew when a look begins again."""

    def __init__(
        self,
        database: apsw.Connection,
        shard_count: int,
        kept: Mapping[int, Head],
        progress: Callable[[int, int], None],
    ) -> None:
        self._database = database
        self._kept = kept
        self._progress = progress
        self._linker = Linker()
        self._chains = {shard: _Chain() for shard in range(shard_count)}
        self._findings: list[Finding] = []
        self._more = 0
        self._unproven = 0
        # In one statement, which is one transaction: the heads are those of the last row.
        heads = cast(
            "list[tuple[int, int, bytes, int]]",
            self._ask("SELECT shard, hseq, h, (SELECT coalesce(max(id), 0) FROM history) FROM shard"),
        )
        self._heads = {shard: Head(hseq, h) for shard, hseq, h, _ in heads}
        self._last_id = heads[0][3] if heads else 0
        anchors = cast("list[tuple[int, int, bytes]]", self._ask("SELECT shard, hseq, h FROM anchor"))
        self._anchors = {(shard, hseq): h for shard, hseq, h in anchors}

    def run(self) -> Verdict:
        """Look at every row."""
        rows = 0
        with LastStates() as states:
            for page in self._pages():
                rows += len(page)
                for row_id, row in page:
                    self._take(row_id, row)
                states.take(row for _, row in page)
                self._progress(page[-1][0], self._last_id)
            self._end()
            pruned_shards = {shard for shard, chain in self._chains.items() if chain.pruned}
            for wrong in states.compare(self._database, self._last_id, pruned_shards):
                self._found_row(wrong)
        return Verdict(
            rows=rows,
            pruned=sum(chain.pruned for chain in self._chains.values()),
            unproven=self._unproven,
            heads=self._heads,
            findings=tuple(
                sorted(self._findings, key=lambda one: (one.row is not None, one.shard, one.hseq))
            ),
            more=self._more,
        )

    def _pages(self) -> Iterator[list[tuple[int, HistoryRow]]]:
        after = 0
        while True:
            rows = self._ask(_PAGE, after, self._last_id, _PAGE_ROWS)
            if not rows:
                return
            after = cast("int", rows[-1][0])
            yield [(cast("int", row[0]), read_history(row)) for row in rows]

    def _take(self, row_id: int, row: HistoryRow) -> None:
        head = self._heads.get(row.shard)
        chain = self._chains.get(row.shard)
        if chain is None or head is None:
            self._found("changed", row.shard, row.hseq, "there is no such shard")
            return
        if row.hseq > head.hseq:
            self._found("head", row.shard, row.hseq, f"stands behind the head, row {head.hseq}")
            return
        if row.hseq <= chain.hseq:
            self._late(row, chain)
            return
        if row.hseq > chain.hseq + 1 and not self._is_pruned(row_id, row, chain):
            chain.gaps[chain.hseq + 1] = row.hseq - 1
        elif not follows(self._linker, chain.h, row):
            self._found("changed", row.shard, row.hseq, "does not follow from the row before it")
        chain.hseq, chain.h = row.hseq, row.h
        anchor = self._anchors.get((row.shard, row.hseq))
        if anchor is not None and anchor != row.h:
            self._found("anchor", row.shard, row.hseq, "is not the row that its anchor names")
        kept = self._kept.get(row.shard)
        if kept is not None and kept.hseq == row.hseq and kept.h != row.h:
            self._found("kept_head", row.shard, row.hseq, "is not the row that the kept head names")

    def _late(self, row: HistoryRow, chain: _Chain) -> None:
        for first, last in chain.gaps.items():
            if first <= row.hseq <= last:
                del chain.gaps[first]
                if first < row.hseq:
                    chain.gaps[first] = row.hseq - 1
                if row.hseq < last:
                    chain.gaps[row.hseq + 1] = last
                break
        self._found("reordered", row.shard, row.hseq, f"stands behind row {chain.hseq}")

    def _is_pruned(self, row_id: int, row: HistoryRow, chain: _Chain) -> bool:
        """Whether all before this row was taken away below an anchor, now or while we read."""
        anchor = self._anchors.get((row.shard, row.hseq - 1))
        if anchor is None:
            # Made by a prune while we read?
            found = self._ask("SELECT h FROM anchor WHERE shard = ? AND hseq = ?", row.shard, row.hseq - 1)
            if not found:
                return False
            anchor = cast("bytes", found[0][0])
        if self._ask("SELECT 1 FROM history WHERE id < ? AND shard = ? LIMIT 1", row_id, row.shard):
            return False
        chain.pruned = row.hseq - 1
        chain.hseq, chain.h = row.hseq - 1, anchor
        return True

    def _end(self) -> None:
        """What only shows at the ends of the chains."""
        for shard, chain in self._chains.items():
            for first, last in chain.gaps.items():
                rows = f"rows {first} to {last} are" if last > first else "is"
                self._found("missing", shard, first, f"{rows} not there")
            head = self._heads.get(shard, Head(0, FIRST_HEAD))
            if chain.hseq < head.hseq and not self._is_all_pruned(shard, head):
                self._found(
                    "cut_off", shard, chain.hseq + 1, f"the chain ends before its head, row {head.hseq}"
                )
            elif chain.hseq == head.hseq and chain.h != head.h:
                self._found("head", shard, head.hseq, "is not the row that the stored head names")
            self._look_beyond(shard, head)
            kept = self._kept.get(shard)
            if kept is not None and kept.hseq > head.hseq:
                self._found(
                    "kept_head", shard, kept.hseq, f"the chain ends at row {head.hseq}, before the kept head"
                )
            elif kept is not None and 0 < kept.hseq <= chain.pruned:
                self._compare_pruned(shard, kept)

    def _look_beyond(self, shard: int, head: Head) -> None:
        """An anchor stays when the end of a chain is cut off together with its head."""
        beyond = [hseq for of, hseq in self._anchors if of == shard and hseq > head.hseq]
        if not beyond:
            return
        # Made by a commit between the two reads?
        now = max(
            (cast("int", row[0]) for row in self._ask("SELECT hseq FROM shard WHERE shard = ?", shard)),
            default=0,
        )
        for hseq in sorted(hseq for hseq in beyond if hseq > now):
            self._found("anchor", shard, hseq, f"is not there, and an anchor names it: the head is row {now}")

    def _compare_pruned(self, shard: int, kept: Head) -> None:
        """The row that a kept head names is pruned: an anchor may still tell."""
        anchor = self._anchors.get((shard, kept.hseq))
        if anchor is None:
            self._unproven += 1
        elif anchor != kept.h:
            self._found("kept_head", shard, kept.hseq, "is not the row that the kept head names")

    def _is_all_pruned(self, shard: int, head: Head) -> bool:
        chain = self._chains[shard]
        if chain.hseq or self._anchors.get((shard, head.hseq)) != head.h:
            return False
        chain.pruned = head.hseq
        return True

    def _found_row(self, wrong: StateFault) -> None:
        self._found("row", wrong.shard, 0, wrong.text, wrong.row)

    def _found(self, fault: Fault, shard: int, hseq: int, text: str, row: str | None = None) -> None:
        if len(self._findings) < _MOST_FINDINGS:
            self._findings.append(Finding(fault=fault, shard=shard, hseq=hseq, text=text, row=row))
        else:
            self._more += 1

    def _ask(self, statement: str, *values: int) -> list[Row]:
        return cast("list[Row]", self._database.execute(statement, values).fetchall())
