"""Stores of two bots hold the same conversations of one platform; only two of one bot get in each other's way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from shardline.actors.codec import pack_plain
from shardline.adapters.telegram.identity import ACCOUNT
from shardline.storage.audit.accounts import ACCOUNT_FACT
from tests.kits.audited import Fault, Tampered, make_chats, overlap

pytest.importorskip("pyspark", reason="the extra `audit` is not installed")

from shardline.storage.audit.checks.registry import pick_checks
from shardline.storage.audit.copies import Copies
from shardline.storage.audit.export import export_store
from shardline.storage.audit.exported import Exported
from shardline.storage.audit.run import run_audit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

CHECKS = pick_checks(["duplicate_sends", "duplicate_content", "shared_conversation"])


def say_same(path: Path) -> None:
    """One send says what one of every such store says, under a key of its own, at the same time."""
    said = "UPDATE outbox SET sent_at = 1760000000000000, idempotency_key = ?, body = ? WHERE id = 22"
    body = pack_plain({"text": "hello"}, limit_bytes=1024, what="body")
    with Tampered(path, relink=False) as store:
        store.run(said, path.stem, body)


def give_account(path: Path, value: object) -> None:
    packed = pack_plain(value, limit_bytes=1024, what="account")
    with Tampered(path, relink=False) as store:
        store.run("INSERT OR REPLACE INTO fact VALUES ('fake', 'account', ?, 1)", packed)


def find(audited: Exported | Copies, out: Path) -> set[Fault]:
    summary = run_audit(audited, out, CHECKS, measures=())
    assert summary.is_complete
    rows = audited.spark.read.parquet(str(out / "finding")).select("check", "ref_id").collect()
    return {(row[0], row[1]) for row in rows}


@pytest.mark.parametrize(("one", "other"), [("1", "2"), ("1", "1")])
def test_an_account_tells_two_bots_of_one_platform_apart(
    spark: SparkSession, tmp_path: Path, one: str, other: str
) -> None:
    paths = tmp_path / "a.db", tmp_path / "b.db"
    for path, account in zip(paths, (one, other), strict=True):
        make_chats(path, chats=12)
        say_same(path)
        give_account(path, account)
    faults = overlap(*paths) | {("duplicate_content", "22")}
    for path in paths:
        export_store(path, tmp_path / "x")

    wanted = faults if one == other else set[Fault]()
    assert find(Exported(spark, tmp_path / "x"), tmp_path / "out") == wanted
    assert find(Copies(spark, *paths), tmp_path / "out-copies") == wanted


def test_beside_an_export_that_does_not_say_its_accounts_none_is_told_apart(
    spark: SparkSession, tmp_path: Path
) -> None:
    """As versions before made them: it may be the same bot's."""
    paths, exports = (tmp_path / "a.db", tmp_path / "b.db"), tmp_path / "x"
    for path in paths:
        make_chats(path, chats=12)
        say_same(path)
        give_account(path, "1")
    faults = overlap(*paths) | {("duplicate_content", "22")}
    for path in paths:
        export_store(path, exports)
    old = next(exports.glob("manifest/*.json"))
    said = json.loads(old.read_text())
    del said["accounts"]
    old.write_text(json.dumps(said))

    assert find(Exported(spark, exports), tmp_path / "out") == faults
    # Once more by this version, all of them say it.
    for path in paths:
        give_account(path, path.stem)
        export_store(path, exports)
    assert find(Exported(spark, exports), tmp_path / "out") == set[Fault]()


@pytest.mark.parametrize(("fact", "accounts"), [("1", {"fake": "1"}), (None, {}), (b"\x01", {}), (7, {})])
def test_what_is_no_text_names_nobody(tmp_path: Path, fact: object, accounts: dict[str, str]) -> None:
    path = tmp_path / "a.db"
    make_chats(path, chats=1)
    if fact is not None:
        give_account(path, fact)
    with Tampered(path, relink=False) as store:
        store.run("INSERT INTO fact VALUES ('broken', 'account', ?, 1)", b"\xc1")
        store.run("INSERT INTO fact VALUES (CAST(x'ff' AS TEXT), 'account', ?, 1)", b"\xa11")

    assert export_store(path, tmp_path / "x").accounts == accounts


def test_the_account_is_the_fact_that_a_channel_stores() -> None:
    assert ACCOUNT == ACCOUNT_FACT
