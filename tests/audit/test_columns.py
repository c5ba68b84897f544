"""An export of a version with other columns: Spark would take one that is not there for NULL in every row."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.kits.audited import make_chats

pytest.importorskip("pyarrow", reason="the extra `audit` is not installed")

from shardline.storage.audit.export import export_store
from shardline.storage.audit.manifest import OtherColumns, read_manifests

if TYPE_CHECKING:
    from collections.abc import Callable

Columns = dict[str, str]


def less(columns: Columns) -> None:
    del columns["hops"]


def more(columns: Columns) -> None:
    columns["mood"] = "text"


def another_kind(columns: Columns) -> None:
    columns["seq"] = "text"


def none_said(columns: Columns) -> None:
    columns.clear()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (less, "inbox has no column 'hops'"),
        (more, "inbox has a column 'mood', which this version does not know"),
        (another_kind, "inbox has 'seq' as text, not int"),
        (none_said, "inbox has no column 'id'"),
    ],
)
def test_other_columns_are_named_and_what_to_do(
    tmp_path: Path, change: Callable[[Columns], None], said: str
) -> None:
    store, exports = tmp_path / "a.db", tmp_path / "x"
    make_chats(store, chats=1)
    export_store(store, exports)
    [path] = (exports / "manifest").glob("*.json")
    record = json.loads(path.read_text())
    change(record["tables"]["inbox"]["columns"])
    path.write_text(json.dumps(record))

    with pytest.raises(OtherColumns, match=said) as told:
        read_manifests(exports)
    assert told.value.table == "inbox"
    assert "export the store again into a new folder" in str(told.value)
    # Nor is anything added to it.
    with pytest.raises(OtherColumns, match=said):
        export_store(store, exports)


def test_an_export_that_does_not_name_its_columns_is_of_another_version(tmp_path: Path) -> None:
    store, exports = tmp_path / "a.db", tmp_path / "x"
    make_chats(store, chats=1)
    export_store(store, exports)
    [path] = (exports / "manifest").glob("*.json")
    record = json.loads(path.read_text())
    del record["tables"]["outbox"]["columns"]
    path.write_text(json.dumps(record))

    with pytest.raises(OtherColumns, match="outbox does not say which columns it has"):
        read_manifests(exports)
