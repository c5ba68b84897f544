"""Parts for stores, as the public kit makes them."""

from shardline.storage.kit.rows import (
    AT_US,
    TOPIC,
    Hand,
    claim_row,
    doubt_send,
    fail_row,
    fail_send,
    finish_row,
    finish_send,
    kill_row,
    make_chat,
    requeue_row,
    requeue_send,
    start_send,
)

__all__ = [
    "AT_US",
    "TOPIC",
    "Hand",
    "claim_row",
    "doubt_send",
    "fail_row",
    "fail_send",
    "finish_row",
    "finish_send",
    "kill_row",
    "make_chat",
    "requeue_row",
    "requeue_send",
    "start_send",
]
