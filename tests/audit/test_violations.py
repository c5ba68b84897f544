"""What breaks the rules is found row by row, however long the history of a message is and whatever lies beside it."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import attrs
import pytest

pytest.importorskip("pyspark", reason="the extra `audit` is not installed")

from pyspark.sql import functions as fn

from shardline.storage.audit.checks.base import DEFAULT_LIMITS
from shardline.storage.audit.checks.history import find_bad_transitions
from shardline.storage.audit.checks.shared import sharing
from shardline.storage.audit.exported import make_frame
from shardline.storage.audit.schemas import spark_schema
from shardline.storage.audit.tables import TABLES
from shardline.storage.audit.transitions import TRANSITIONS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

RULES = sorted(TRANSITIONS)
MESSAGES = 1_500
MOST_ROWS = 7
PRUNED = 1
"""The shard whose oldest rows are gone."""


@attrs.frozen
class Row:
    """One row of a history."""

    shard: int
    hseq: int
    kind: str
    identity: int
    before: str
    event: str
    after: str


def walk(rng: random.Random, kind: str) -> list[tuple[str, str, str]]:
    """What the rules allow from the beginning on: from, event, to."""
    state, rows = "", list[tuple[str, str, str]]()
    for _ in range(rng.randint(1, MOST_ROWS)):
        moves = [
            (before, event, after) for one, before, event, after in RULES if (one, before) == (kind, state)
        ]
        if not moves:
            break
        rows.append(rng.choice(moves))
        state = rows[-1][2]
    return rows


def spoil(rng: random.Random, rows: list[tuple[str, str, str]]) -> None:
    """Take one away, exchange two, or put one that a rule allows somewhere else, or none allows, into its place."""
    at = rng.randrange(len(rows))
    match rng.randrange(4):
        case 0:
            del rows[at]
        case 1:
            other = rng.randrange(len(rows))
            rows[at], rows[other] = rows[other], rows[at]
        case 2:
            rows[at] = rng.choice(RULES)[1:]
        case _:
            rows[at] = (rows[at][0], rows[at][1], rng.choice(("flying", "done", "lost", "")))


def make_history(rng: random.Random) -> list[Row]:
    """Messages and sends whose rows lie between those of others, a third of them spoilt."""
    histories = {
        (kind, identity): walk(rng, kind) for kind in ("in", "out") for identity in range(MESSAGES // 2)
    }
    for rows in histories.values():
        if rng.random() < 1 / 3:
            spoil(rng, rows)
    order = [key for key, rows in histories.items() for _ in rows]
    rng.shuffle(order)
    ends = [2, 2]
    made: list[Row] = []
    for kind, identity in order:
        shard = identity % 2
        ends[shard] += 1
        made.append(Row(shard, ends[shard], kind, identity, *histories[kind, identity].pop(0)))
    return made


def expected(history: list[Row]) -> set[tuple[str, str]]:
    """Place and reason of each row that breaks a rule."""
    last: dict[tuple[str, int], str] = {}
    found: set[tuple[str, str]] = set()
    for row in history:
        before = last.get((row.kind, row.identity))
        last[row.kind, row.identity] = row.after
        place = f"{row.shard}/{row.hseq}"
        if (row.kind, row.before, row.event, row.after) not in TRANSITIONS:
            found.add((place, "not allowed"))
        elif before is not None and row.before != before:
            found.add((place, "does not follow"))
        elif before is None and row.before and row.shard != PRUNED:
            found.add((place, "has no beginning"))
    return found


def make_table(spark: SparkSession, name: str, rows: Sequence[Mapping[str, object]]) -> DataFrame:
    """A table of an audit; null where a row says nothing."""
    schema = spark_schema(TABLES[name])
    return make_frame(spark, [tuple(row.get(column) for column in schema.names) for row in rows], schema)


def test_each_row_that_breaks_a_rule_is_found_and_no_other(spark: SparkSession) -> None:
    history = make_history(random.Random(7))
    first = (
        Row(0, 1, "in", MESSAGES, "", "park", "parked"),
        Row(0, 2, "in", MESSAGES + 1, "", "park", "parked"),
    )
    rows = [
        {"store": "s", "shard": one.shard, "hseq": one.hseq, "kind": one.kind, "identity": one.identity,
         "from": one.before, "to": one.after, "event": one.event, "claim": 1, "at": 1, "instance": 1}
        for one in (*first, *history)
    ]  # fmt: skip
    heads = [{"store": "s", "shard": shard, "hseq": len(rows)} for shard in (0, 1)]
    tables = {"history": make_table(spark, "history", rows), "shard": make_table(spark, "shard", heads)}
    with sharing(tables) as shared:
        found = find_bad_transitions(shared, DEFAULT_LIMITS)
        told = found.select("ref_id", fn.get_json_object("detail", "$.why")).collect()
    wanted = expected(history)
    assert {tuple(row) for row in told} == wanted
    assert len(told) == len(wanted)
    assert {why for _, why in wanted} == {"not allowed", "does not follow", "has no beginning"}
