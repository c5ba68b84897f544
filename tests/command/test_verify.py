"""`shardline outbox verify`: exit codes, what is printed, and heads kept elsewhere."""

import json
from pathlib import Path

import apsw
import pytest

from tests.kits.operated import make_store, operate, owner_of


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "bot.db"
    make_store(path)
    return path


def edit(store: Path, statement: str) -> None:
    database = apsw.Connection(str(store))
    database.execute(statement)
    database.close()


def test_a_whole_history_is_one_line_and_exit_code_0(store: Path) -> None:
    ended = operate("outbox", "verify", "--store", store)

    assert ended.exit_code == 0
    assert ended.stdout == "the history is whole: 10 rows in 16 chains\n"
    assert ended.stderr == ""


def test_what_is_wrong_is_a_line_each_and_exit_code_1(store: Path) -> None:
    edit(store, "UPDATE history SET claim = claim + 1 WHERE id = 2")
    edit(store, "UPDATE outbox SET attempts = 9, status = 'sent', uncertain_since = NULL WHERE id = 1")
    ended = operate("outbox", "verify", "--store", store)
    told = json.loads(operate("outbox", "verify", "--store", store, "--json").stdout)

    assert ended.exit_code == 1
    assert "does not follow from the row before it" in ended.stdout
    assert "out-1" in ended.stdout
    assert "is not whole" in ended.stderr
    assert not told["ok"]
    assert [finding["fault"] for finding in told["findings"]].count("changed") == 1


def test_heads_are_saved_and_compared(store: Path, tmp_path: Path) -> None:
    heads = tmp_path / "heads.json"
    assert operate("outbox", "verify", "--store", store, "--save-head", heads).exit_code == 0
    with owner_of(store):
        grown = operate("outbox", "verify", "--store", store, "--head", heads)
    assert (grown.exit_code, "the kept heads are in it" in grown.stdout) == (0, True)

    edit(store, "DELETE FROM history")
    edit(store, "UPDATE shard SET hseq = 0, h = zeroblob(32)")
    edit(store, "DELETE FROM inbox")
    edit(store, "DELETE FROM outbox")
    assert operate("outbox", "verify", "--store", store).exit_code == 0
    cut = operate("outbox", "verify", "--store", store, "--head", heads, "--json")
    assert cut.exit_code == 1
    assert {finding["fault"] for finding in json.loads(cut.stdout)["findings"]} == {"kept_head"}


def test_heads_of_a_broken_history_are_not_saved(store: Path, tmp_path: Path) -> None:
    heads = tmp_path / "heads.json"
    edit(store, "UPDATE history SET claim = claim + 1 WHERE id = 2")
    ended = operate("outbox", "verify", "--store", store, "--save-head", heads)

    assert ended.exit_code == 1
    assert not heads.exists()
    assert "is not written" in ended.stderr


def test_heads_of_another_store_are_refused(store: Path, tmp_path: Path) -> None:
    other, heads = tmp_path / "other.db", tmp_path / "heads.json"
    make_store(other)
    operate("outbox", "verify", "--store", other, "--save-head", heads)
    ended = operate("outbox", "verify", "--store", store, "--head", heads)

    assert ended.exit_code == 1
    assert "is of store" in ended.stderr


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[]",
        b"\xff",
        b'{"format": "shardline-heads-2"}',
        b'{"format": "shardline-heads-1", "store": "x", "heads": {"0": [1, "zz"]}}',
        b'{"format": "shardline-heads-1", "store": "x", "heads": {"0": [1.5, "' + b"00" * 32 + b'"]}}',
        b'{"format": "shardline-heads-1", "store": "x", "heads": {"0": 1}}',
    ],
)
def test_what_is_no_file_of_heads_is_neither_read_nor_written_over(
    store: Path, tmp_path: Path, content: bytes
) -> None:
    heads = tmp_path / "heads.json"
    heads.write_bytes(content)
    for option in ("--head", "--save-head"):
        ended = operate("outbox", "verify", "--store", store, option, heads)
        assert ended.exit_code == 2
        assert ended.stderr.startswith("shardline: ")
        assert ended.stderr.count("\n") == 1
    assert heads.read_bytes() == content


def test_heads_that_are_not_there_and_a_folder_that_is_not_are_usage(store: Path, tmp_path: Path) -> None:
    for option in ("--head", "--save-head"):
        ended = operate("outbox", "verify", "--store", store, option, tmp_path / "no" / "heads.json")
        assert ended.exit_code == 2


_LONGEST = "(SELECT shard FROM history GROUP BY shard ORDER BY count(*) DESC, shard LIMIT 1)"
_MIDDLE = f"(SELECT id FROM history WHERE shard = {_LONGEST} AND hseq = 2)"
_LAST = f"(SELECT id FROM history WHERE shard = {_LONGEST} ORDER BY hseq DESC LIMIT 1)"


@pytest.mark.parametrize(
    ("fault", "statements"),
    [
        ("changed", (f"UPDATE history SET at = at + 1 WHERE id = {_MIDDLE}",)),
        ("missing", (f"DELETE FROM history WHERE id = {_MIDDLE}",)),
        ("reordered", (f"UPDATE history SET id = 1000000 WHERE id = {_MIDDLE}",)),
        ("cut_off", (f"DELETE FROM history WHERE id = {_LAST}",)),
        ("missing", (f"DELETE FROM history WHERE shard = {_LONGEST} AND hseq = 1",)),
    ],
)
def test_each_fault_of_a_file_is_named_and_exit_code_1(
    store: Path, fault: str, statements: tuple[str, ...]
) -> None:
    for statement in statements:
        edit(store, statement)
    ended = operate("outbox", "verify", "--store", store, "--json")

    assert ended.exit_code == 1
    assert fault in {finding["fault"] for finding in json.loads(ended.stdout)["findings"]}


def test_a_tail_cut_off_together_with_its_head_is_found_with_head_alone(store: Path, tmp_path: Path) -> None:
    heads = tmp_path / "heads.json"
    assert operate("outbox", "verify", "--store", store, "--save-head", heads).exit_code == 0
    before = "SELECT max(hseq) - 1 FROM history WHERE history.shard = shard.shard"
    edit(
        store,
        f"UPDATE shard SET hseq = ({before}),"
        f" h = (SELECT h FROM history WHERE history.shard = shard.shard AND hseq = ({before}))"
        f" WHERE shard = {_LONGEST}",
    )
    edit(store, f"DELETE FROM history WHERE id = {_LAST}")
    alone = json.loads(operate("outbox", "verify", "--store", store, "--json").stdout)
    cut = operate("outbox", "verify", "--store", store, "--head", heads, "--json")

    assert {finding["fault"] for finding in alone["findings"]} <= {"row"}, "the chain itself looks whole"
    assert cut.exit_code == 1
    assert "kept_head" in {finding["fault"] for finding in json.loads(cut.stdout)["findings"]}


def test_a_kept_head_whose_row_is_pruned_is_said_to_prove_nothing(store: Path, tmp_path: Path) -> None:
    """Saved, then the bot goes on, and retention takes the row away: below the newer anchor alone nothing is known."""
    heads = tmp_path / "heads.json"
    assert operate("outbox", "verify", "--store", store, "--save-head", heads).exit_code == 0
    kept = json.loads(heads.read_text())
    longest = max(kept["heads"], key=lambda shard: kept["heads"][shard][0])
    kept["heads"][longest] = [1, "11" * 32]
    heads.write_text(json.dumps(kept))
    wrong = operate("outbox", "verify", "--store", store, "--head", heads)
    assert (wrong.exit_code, "kept_head" in wrong.stdout) == (1, True)

    edit(store, f"INSERT INTO anchor SELECT shard, hseq, h, at FROM history WHERE id = {_MIDDLE}")
    edit(store, f"DELETE FROM history WHERE shard = {longest} AND hseq <= 2")
    told = operate("outbox", "verify", "--store", store, "--head", heads)
    as_json = json.loads(operate("outbox", "verify", "--store", store, "--head", heads, "--json").stdout)
    assert told.exit_code == 0
    assert "15 of 16 kept heads are in it" in told.stdout
    assert as_json["unproven_heads"] == 1

    edit(store, f"INSERT INTO anchor VALUES ({longest}, 1, zeroblob(32), 0)")
    named = operate("outbox", "verify", "--store", store, "--head", heads, "--json")
    assert named.exit_code == 1
    assert {finding["fault"] for finding in json.loads(named.stdout)["findings"]} == {"kept_head"}
