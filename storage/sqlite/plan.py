"""The rows of one transaction."""

from __future__ import annotations

import attrs

from .rows import Row


@attrs.define
class Plan:
    """The rows of one transaction by kind, in the order the kinds are written."""

    inbox: list[Row] = attrs.Factory(list[Row])
    events: list[Row] = attrs.Factory(list[Row])
    inbox_moves: list[Row] = attrs.Factory(list[Row])
    inbox_tails: list[Row] = attrs.Factory(list[Row])
    states: dict[str, Row | None] = attrs.Factory(dict[str, Row | None])
    outbox: list[Row] = attrs.Factory(list[Row])
    outbox_moves: list[Row] = attrs.Factory(list[Row])
    outbox_tails: list[Row] = attrs.Factory(list[Row])
    emits: list[Row] = attrs.Factory(list[Row])
    relayed: list[Row] = attrs.Factory(list[Row])
    facts: dict[tuple[str, str], Row | None] = attrs.Factory(dict[tuple[str, str], Row | None])
    history: list[Row] = attrs.Factory(list[Row])
    anchors: list[Row] = attrs.Factory(list[Row])
    shards: set[int] = attrs.Factory(set[int])
