"""Exports of many hosts are read together, and no store twice."""

from pathlib import Path

import pytest

from tests.kits.audited import make_chats

pytest.importorskip("pyarrow", reason="the extra `audit` is not installed")

from shardline.storage.audit.export import export_store
from shardline.storage.audit.manifest import BadExport, read_exports


def export(store: Path, folder: Path) -> str:
    if not store.exists():
        make_chats(store, chats=1)
    folder.parent.mkdir(parents=True, exist_ok=True)
    return export_store(store, folder).store


def found(*places: Path) -> dict[Path, set[str]]:
    return {root: {one.store for one in many} for root, many in read_exports(places).items()}


def test_folders_of_exports_are_found_where_they_lie(tmp_path: Path) -> None:
    fleet = tmp_path / "fleet"
    stores = {name: export(tmp_path / f"{name}.db", fleet / name) for name in ("one", "two", "three")}
    want = {fleet / name: {store} for name, store in stores.items()}

    assert found(fleet) == want
    assert found(fleet / "one", fleet / "two", fleet / "three") == want
    assert found(tmp_path) == want
    assert found(fleet / "t*") == {place: one for place, one in want.items() if place.name != "one"}
    assert found(fleet, fleet / "one") == want


def test_one_store_in_two_folders_is_refused(tmp_path: Path) -> None:
    for folder in ("x", "y"):
        export(tmp_path / "a.db", tmp_path / "fleet" / folder)

    with pytest.raises(BadExport, match="both hold exports"):
        read_exports([tmp_path / "fleet"])


@pytest.mark.parametrize("name", ["none", "none*", "."])
def test_a_place_without_exports_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadExport, match="holds no export"):
        read_exports([tmp_path / name])
