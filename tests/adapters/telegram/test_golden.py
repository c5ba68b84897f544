"""What each kind of update becomes, field by field, as files: a change of the mapping shows as a change of a file."""

from __future__ import annotations

import enum
import json
from pathlib import Path
from typing import cast

import attrs
import pytest

from shardline.actors.plain import Plain
from shardline.adapters.base import Inbound
from shardline.adapters.telegram.update import Me, Reading, read_update

HOW = Reading(me=Me(id=4200, username="Sim_Bot"))
GOLDEN = sorted(Path(__file__).with_name("golden").glob("*.json"))
KINDS = {
    "album", "business_message", "callback_query", "channel_post", "direct_topic", "edited_message",
    "message", "migration", "topic",
}  # fmt: skip


def plain(inbound: Inbound) -> Plain:
    """What is set, as JSON has it; without the raw update."""

    def is_told(field: attrs.Attribute[object], value: object) -> bool:
        return value not in (None, (), {}) and value != field.default and field.name != "raw"

    def as_json(value: object) -> object:
        return value.value if isinstance(value, enum.Enum) else str(value)

    found = attrs.asdict(inbound, filter=is_told)
    return cast("Plain", json.loads(json.dumps(found, default=as_json)))


def test_every_kind_of_the_fact_sheet_has_a_file() -> None:
    assert {path.stem for path in GOLDEN} == KINDS


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_an_update_becomes_what_its_file_says(path: Path) -> None:
    told = json.loads(path.read_text())
    inbound = read_update(told["update"], HOW)

    assert isinstance(inbound, Inbound)
    assert plain(inbound) == told["inbound"]
    assert json.loads(inbound.raw or b"") == told["update"]
