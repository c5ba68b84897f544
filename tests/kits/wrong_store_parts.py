"""Stores that are wrong about the parts of a text."""

from __future__ import annotations

import attrs

from shardline.storage.commands import Commit, Part
from shardline.storage.port import LAST_PART
from shardline.storage.records import StoredOutbox
from tests.kits.memory_mutants import WallStore, Wrong

PARTS = Wrong()


@PARTS.caught_by("page_begins_behind_a_part")
class PagesByTextsAlone(WallStore):
    def read_outbox_lane(
        self, shard: int, key: str, after_seq: int, limit: int, *, after_part: int = LAST_PART
    ) -> list[StoredOutbox]:
        return self.real.outbox_lane(shard, key, after_seq, limit)


@PARTS.caught_by("part_is_held_by_an_earlier_one_alone")
class HoldsNothing(WallStore):
    def read_is_held(self, channel: str, idempotency_key: str, part: int) -> bool:
        return False


@PARTS.caught_by("part_is_held_by_an_earlier_one_alone")
class HoldsThePartItself(WallStore):
    def read_is_held(self, channel: str, idempotency_key: str, part: int) -> bool:
        return self.real.is_held(channel, idempotency_key, part + 1)


@PARTS.caught_by("uncertain_send_blocks_what_is_behind_it")
class BlocksNothing(WallStore):
    def read_is_blocked(self, shard: int, key: str, before_seq: int, before_part: int) -> bool:
        return False


@PARTS.caught_by("uncertain_send_blocks_what_is_behind_it")
class BlocksTheWholeText(WallStore):
    def read_is_blocked(self, shard: int, key: str, before_seq: int, before_part: int) -> bool:
        return self.real.is_blocked(shard, key, before_seq, LAST_PART)


@PARTS.caught_by("parts_of_a_text_are_found")
class FindsTheFirstPart(WallStore):
    def read_text_parts(self, channel: str, idempotency_key: str) -> list[StoredOutbox]:
        return self.real.text_parts(channel, idempotency_key)[:1]


@PARTS.caught_by("send_is_cut_smaller_in_its_place")
class PutsPiecesAtTheTail(WallStore):
    def part(self, part: Part) -> Part:
        if not isinstance(part, Commit) or not part.rewrites:
            return part
        new = tuple(attrs.evolve(row, record=attrs.evolve(row.record, seq=0)) for row in part.new_outbox)
        return attrs.evolve(part, new_outbox=new)


@PARTS.caught_by("send_is_cut_smaller_in_its_place")
class KeepsTheLongText(WallStore):
    def part(self, part: Part) -> Part:
        if not isinstance(part, Commit):
            return part
        moves = tuple(rewrite.move for rewrite in part.rewrites)
        return attrs.evolve(part, outbox=(*part.outbox, *moves), rewrites=())


@PARTS.caught_by("parts_for_another_home_keep_their_order")
class LosesTheLastEmit(WallStore):
    def part(self, part: Part) -> Part:
        return attrs.evolve(part, emits=part.emits[:-1]) if isinstance(part, Commit) else part
