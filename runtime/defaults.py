"""Every default of the runtime, once: the code takes the constants, the documentation prints the table."""

from __future__ import annotations

from typing import Final

import attrs

_DAY_S: Final = 86_400.0
_KIB: Final = 1024

SHARD_COUNT: Final = 16
MAX_INFLIGHT: Final = 1_024
MAX_LANE_BACKLOG: Final = 10_000
MAX_BACKLOG: Final = 1_000_000
BACKLOG_RESUME: Final = 0.9
GRACE_S: Final = 30.0
LINGER_S: Final = 5.0
ADAPTER_SLOW_S: Final = 10.0
ADAPTER_START_S: Final = 60.0
SEND_TIMEOUT_S: Final = 30.0
HANDLER_TIMEOUT_S: Final = 30.0
TURN_OVERDUE_S: Final = 10.0
CONCURRENCY: Final = 64
ACK_DEADLINE_S: Final = 30.0
DELIVERY_CONCURRENCY: Final = 16
BULK_AFTER: Final = 15
BULK_SLOTS: Final = 0.125
BULK_BURST: Final = 4
BULK_BUCKET: Final = 0.25
BULK_CALM_S: Final = 0.25
BULK_GATHER_S: Final = 0.005
BREAKER_FAILURES: Final = 5
BREAKER_WINDOW_S: Final = 30.0
BREAKER_OPEN_S: Final = 10.0
MAX_RETRIES: Final = 5
BASE_DELAY_S: Final = 0.5
DELAY_MULTIPLIER: Final = 2.0
MAX_DELAY_S: Final = 30.0
MAX_PAUSE_S: Final = 86_400.0
PAUSE_JITTER_S: Final = 0.25
UNREACHABLE_S: Final = _DAY_S
UNREACHABLE_MARKS: Final = 100_000
MAX_MOVES: Final = 16
MIN_DELAY_S: Final = 0.05
MAX_RETRY_LATER_S: Final = _DAY_S
SUSPECT_CRASHES: Final = 2
MAX_BLAMES: Final = 5
MAX_ERRORS: Final = 32
MAX_HOPS: Final = 64
MAX_EFFECTS: Final = 1_000
ALBUM_MESSAGES: Final = 10
MAX_ALBUM_S: Final = 60.0
MAX_PARTS: Final = 1_000
MAX_FILE_BYTES: Final = 50 * _KIB * _KIB
EPHEMERAL_S: Final = 5.0
EPHEMERAL_CALLS: Final = 64
PAYLOAD_BYTES: Final = 1024 * _KIB
STATE_BYTES: Final = 256 * _KIB
HUNGRY_LANES: Final = 512
WARM_LANES: Final = 256
WARM_S: Final = 2.0
WARM_STATE_BYTES: Final = 4 * _KIB
STEP_BYTES: Final = 256 * _KIB
DEDUPE_HORIZON_S: Final = 30 * _DAY_S
RETENTION_S: Final = 30 * _DAY_S
HISTORY_S: Final = 30 * _DAY_S
PRUNE_EVERY_S: Final = 300.0
PRUNE_ROWS: Final = 500
PRUNE_SHARE: Final = 0.1
EDGE_REPORT_S: Final = 120.0
CONTROL_POLL_S: Final = 0.2
CONTROL_CRASHES: Final = 2
PULSE_S: Final = 5.0
STALE_S: Final = 15.0
LOG_WARN_BYTES: Final = 32 * _KIB * _KIB
TIMER_CHECK_S: Final = 30.0
TIMER_BATCH: Final = 128


@attrs.frozen
class Default:
    """One line of the table. `name` is the setting's name, and in capitals that of its constant here."""

    name: str
    value: float
    unit: str
    meaning: str


DEFAULTS: Final[tuple[Default, ...]] = (
    Default(
        "shard_count", SHARD_COUNT, "shards", "units of ownership; stored, fixed for the life of a store"
    ),
    Default("max_inflight", MAX_INFLIGHT, "messages", "tokens of the edges, and the window over the backlog"),
    Default(
        "max_lane_backlog", MAX_LANE_BACKLOG, "messages", "waiting in one conversation before edges refuse"
    ),
    Default("max_backlog", MAX_BACKLOG, "messages", "waiting in all conversations before edges stop reading"),
    Default("backlog_resume", BACKLOG_RESUME, "of max_backlog", "left, and edges read again"),
    Default("grace_s", GRACE_S, "seconds", "how long a stop lets handlers finish"),
    Default(
        "linger_s",
        LINGER_S,
        "seconds",
        "after the grace time, until `run` ends without what ignores its cancellation",
    ),
    Default(
        "adapter_slow_s",
        ADAPTER_SLOW_S,
        "seconds",
        "after which a log line names an adapter that has not started",
    ),
    Default("adapter_start_s", ADAPTER_START_S, "seconds", "time limit of an adapter's start"),
    Default("send_timeout_s", SEND_TIMEOUT_S, "seconds", "time limit of one send"),
    Default("handler_timeout_s", HANDLER_TIMEOUT_S, "seconds", "time limit of one turn"),
    Default("turn_overdue_s", TURN_OVERDUE_S, "seconds", "under way, and a turn is shown as overdue"),
    Default("concurrency", CONCURRENCY, "turns", "under way at once in one topic"),
    Default(
        "ack_deadline_s", ACK_DEADLINE_S, "seconds", "until an event goes to another member of its group"
    ),
    Default("delivery_concurrency", DELIVERY_CONCURRENCY, "sends", "under way at once in one channel"),
    Default(
        "bulk_after",
        BULK_AFTER,
        "sends",
        "of answers pass a broadcast that waits, then one of its sends goes",
    ),
    Default(
        "bulk_slots", BULK_SLOTS, "of a channel's slots", "that a broadcast starts at once beside answers"
    ),
    Default("bulk_burst", BULK_BURST, "sends", "at most, of that"),
    Default("bulk_bucket", BULK_BUCKET, "of the bot's bucket", "that a broadcast leaves to answers"),
    Default(
        "bulk_calm_s", BULK_CALM_S, "seconds", "without an answer, and a broadcast takes all that is free"
    ),
    Default("bulk_gather_s", BULK_GATHER_S, "seconds", "that a broadcast's sends gather for, to go together"),
    Default(
        "breaker_failures", BREAKER_FAILURES, "failures", "within the window that open a circuit breaker"
    ),
    Default("breaker_window_s", BREAKER_WINDOW_S, "seconds", "in which a breaker counts failures"),
    Default("breaker_open_s", BREAKER_OPEN_S, "seconds", "until an open breaker lets one message try"),
    Default("max_retries", MAX_RETRIES, "tries", "after the first one, before a message is dead"),
    Default("base_delay_s", BASE_DELAY_S, "seconds", "upper bound of the first wait"),
    Default("delay_multiplier", DELAY_MULTIPLIER, "times", "by which the bound grows with each failure"),
    Default("max_delay_s", MAX_DELAY_S, "seconds", "upper bound of every wait"),
    Default("max_pause_s", MAX_PAUSE_S, "seconds", "longest pause a channel may ask for"),
    Default("pause_jitter_s", PAUSE_JITTER_S, "seconds", "at most added to a pause that a channel asks for"),
    Default("unreachable_s", UNREACHABLE_S, "seconds", "a recipient that cannot be reached is sent nothing"),
    Default(
        "unreachable_marks",
        UNREACHABLE_MARKS,
        "conversations",
        "of a channel that are known to be so; the oldest goes first",
    ),
    Default("max_moves", MAX_MOVES, "moves", "of one chat from address to address"),
    Default(
        "min_delay_s", MIN_DELAY_S, "seconds", "lower bound of every wait with jitter, and of `RetryLater`"
    ),
    Default(
        "max_retry_later_s",
        MAX_RETRY_LATER_S,
        "seconds",
        "upper bound of the wait that `RetryLater` asks for",
    ),
    Default("suspect_crashes", SUSPECT_CRASHES, "crashes", "found claimed so often, a message is run apart"),
    Default("max_blames", MAX_BLAMES, "crashes", "found claimed alone so often, a message is dead"),
    Default("max_errors", MAX_ERRORS, "errors", "kept with a row; the history has them all"),
    Default("max_hops", MAX_HOPS, "messages", "that may have caused one another before the next is dead"),
    Default("max_effects", MAX_EFFECTS, "effects", "of one turn"),
    Default("album_messages", ALBUM_MESSAGES, "messages", "of an album in one turn at most"),
    Default("max_album_s", MAX_ALBUM_S, "seconds", "that the first part of an album may wait for the others"),
    Default("max_parts", MAX_PARTS, "parts", "that a text is sent in"),
    Default("max_file_bytes", MAX_FILE_BYTES, "bytes", "of a medium, unless the channel says otherwise"),
    Default("ephemeral_s", EPHEMERAL_S, "seconds", "an ephemeral call may take"),
    Default("ephemeral_calls", EPHEMERAL_CALLS, "calls", "of one channel under way at once"),
    Default("payload_bytes", PAYLOAD_BYTES, "bytes", "longest message on the wire"),
    Default("state_bytes", STATE_BYTES, "bytes", "longest packed state of a conversation"),
    Default(
        "hungry_lanes",
        HUNGRY_LANES,
        "lanes",
        "of conversations whose rows are all on disk, kept in memory by shard, in and out apart",
    ),
    Default(
        "warm_lanes", WARM_LANES, "lanes", "of idle conversations kept in memory, by shard, in and out apart"
    ),
    Default(
        "warm_s", WARM_S, "seconds", "an idle conversation is kept in memory at least; twice that at most"
    ),
    Default(
        "warm_state_bytes",
        WARM_STATE_BYTES,
        "bytes",
        "of state; a conversation with more is not kept when idle",
    ),
    Default("step_bytes", STEP_BYTES, "bytes", "longest packed result of a step"),
    Default("dedupe_horizon_s", DEDUPE_HORIZON_S, "seconds", "how long a key is known as a repeat"),
    Default(
        "retention_s", RETENTION_S, "seconds", "how long what has ended is kept: messages, sends, events"
    ),
    Default("history_s", HISTORY_S, "seconds", "how long the history of transitions is kept"),
    Default("prune_every_s", PRUNE_EVERY_S, "seconds", "between two passes that take old rows away"),
    Default("prune_rows", PRUNE_ROWS, "rows", "at most that one commit of a pass takes away"),
    Default("prune_share", PRUNE_SHARE, "of the writer's time", "at most that a pass takes"),
    Default(
        "edge_report_s", EDGE_REPORT_S, "seconds", "an adapter's report of its connection holds unrepeated"
    ),
    Default("control_poll_s", CONTROL_POLL_S, "seconds", "between looks for control records"),
    Default(
        "control_crashes",
        CONTROL_CRASHES,
        "crashes",
        "of what carries it out, and a decision is refused",
    ),
    Default("pulse_s", PULSE_S, "seconds", "between two notes of how the runtime stands, for `status`"),
    Default("stale_s", STALE_S, "seconds", "old, and `status` calls such a note stale"),
    Default(
        "log_warn_bytes", LOG_WARN_BYTES, "bytes", "of the store's log that a reader keeps, and health warns"
    ),
    Default(
        "timer_check_s",
        TIMER_CHECK_S,
        "seconds",
        "after which the wall clock is read again while timers wait",
    ),
    Default("timer_batch", TIMER_BATCH, "timers", "read and fired at once"),
)
"""The table, in the order the documentation prints it."""
