"""Stores that are wrong in what they find."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from shardline.storage.port import LAST_PART, StoredState
from shardline.storage.records import InboxRecord, InboxStatus, StoredInbox, StoredOutbox
from tests.kits.memory_mutants import WallStore, Wrong

READS = Wrong()


@READS.caught_by("parts_of_one_text_share_a_seq_and_are_never_torn_apart")
class TearsTextsApart(WallStore):
    def read_outbox_lane(
        self, shard: int, key: str, after_seq: int, limit: int, *, after_part: int = LAST_PART
    ) -> list[StoredOutbox]:
        return self.real.outbox_lane(shard, key, after_seq, limit, after_part=after_part)[:limit]


@READS.caught_by("content_of_a_send_is_kept")
class ForgetsHops(WallStore):
    def read_find_outbox(self, channel: str, idempotency_key: str, part: int) -> StoredOutbox | None:
        stored = self.real.find_outbox(channel, idempotency_key, part)
        return stored and attrs.evolve(stored, content=attrs.evolve(stored.content, hops=0))


@READS.caught_by("lanes_are_found_and_paged")
class LanesFromTheStart(WallStore):
    def read_inbox_lane(self, shard: int, key: str, after_seq: int, limit: int) -> list[StoredInbox]:
        return self.real.inbox_lane(shard, key, 0, limit)


@READS.caught_by("lanes_are_found_and_paged")
class FindsTheFirstLane(WallStore):
    def read_next_inbox_key(self, shard: int, after: str) -> str | None:
        return None if after else self.real.next_inbox_key(shard, after)


@READS.caught_by("lanes_hold_open_rows_alone")
class FindsNoClaims(WallStore):
    def read_claimed(self) -> list[InboxRecord]:
        return []


@READS.caught_by("rows_of_a_lane_are_counted")
class CountsTheWholeLane(WallStore):
    def read_count_inbox_lane(self, shard: int, key: str, after_seq: int) -> tuple[int, int]:
        return self.real.count_inbox_lane(shard, key, 0)


@READS.caught_by("keys_of_messages_are_known")
class KnowsNoKey(WallStore):
    def read_has_inbox(self, dedupe_key: str) -> bool:
        return False


@READS.caught_by("open_messages_are_counted")
class CountsThisOpeningAlone(WallStore):
    @property
    def open_messages(self) -> int:
        return self.store.open_messages if self.store.info.instance == 1 else 0


@READS.caught_by("crashed_rows_are_found")
class FindsRunningOnesToo(WallStore):
    def read_crashed(self) -> list[InboxRecord]:
        return [*self.real.crashed(), *self.real.claimed()]


@READS.caught_by("sends_are_found_by_state")
class FindsNoFlyingSends(WallStore):
    def read_flying(self) -> list[StoredOutbox]:
        return []


@READS.caught_by("dead_rows_are_listed_by_time_of_death")
class ListsById(WallStore):
    def read_list_inbox(
        self, *, status: InboxStatus | None, key: str | None, offset: int, limit: int
    ) -> Sequence[StoredInbox]:
        rows = self.real.list_inbox(status=status, key=key, offset=offset, limit=limit)
        return sorted(rows, key=lambda row: row.record.id)


@READS.caught_by("every_field_of_a_row_is_kept")
class ForgetsReasons(WallStore):
    def read_inbox(self, row_id: int) -> StoredInbox | None:
        stored = self.real.inbox(row_id)
        return stored and attrs.evolve(stored, record=attrs.evolve(stored.record, errors=()))


@READS.caught_by("raw_bytes_of_a_message_are_kept")
class ForgetsRawBytes(WallStore):
    def read_inbox(self, row_id: int) -> StoredInbox | None:
        stored = self.real.inbox(row_id)
        return stored and attrs.evolve(stored, message=attrs.evolve(stored.message, raw=None))


@READS.caught_by("last_write_of_a_batch_wins")
class StateOfAnybody(WallStore):
    def read_state(self, conversation_key: str) -> StoredState | None:
        return StoredState(b"c", 3)
