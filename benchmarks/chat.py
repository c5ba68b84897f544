"""The whole chat path (accept, handle, reply, sent recorded), as a ratio to raw SQLite, one message at a time."""

import sys
from functools import partial

from benchmarks.comparison import Goal, run_goals
from benchmarks.product import product_chat, product_chat_beside_slow
from benchmarks.raw import raw_chat
from benchmarks.raw_store import Sync

IN_FLIGHT = (1, 64, 256, 1_024)
CONVERSATIONS = (2_000, 24)
BARS: dict[tuple[Sync, int, int], float] = {
    ("FULL", 1, 2_000): 0.49,
    ("FULL", 64, 2_000): 9.1,
    ("FULL", 256, 2_000): 16.1,
    ("FULL", 1_024, 2_000): 24.5,
    ("FULL", 64, 24): 7.0,
    ("NORMAL", 1, 2_000): 0.154,
    ("NORMAL", 64, 2_000): 0.7,
    ("NORMAL", 256, 2_000): 0.7,
}
"""By sync, messages in flight and conversations: 0.7 of what was set after the prototype
(docs/explanation/performance.md)."""
BESIDE_SLOW = 0.9
"""Of the others' rate while in every shard one handler does not end, to their rate without these."""
MOST_COMMITS: dict[int, float] = {1: 3.05, 64: 0.13, 256: 0.04}
"""A message, with 2,000 conversations under FULL, by messages in flight."""


def chat_goals() -> list[Goal]:
    """So many messages in flight, from the accept to the commit that records the send; then the next one.

    Raw takes three transactions for each message, as the product with one in flight does. Neither the pool of turns
    nor that of sends is a limit: both take as many at once as can be in flight.
    """
    syncs: tuple[Sync, ...] = ("FULL", "NORMAL")
    beside_slow = Goal(
        name="chat, a slow handler a shard, to without",
        sync="NORMAL",
        bar=BESIDE_SLOW,
        product=partial(product_chat_beside_slow, sync="NORMAL", in_flight=256, conversations=2_000),
        raw=partial(product_chat, sync="NORMAL", in_flight=256, conversations=2_000),
    )
    return [
        beside_slow,
        *(
            Goal(
                name=f"chat, {in_flight} in flight, {conversations} conversations",
                sync=sync,
                bar=BARS.get((sync, in_flight, conversations)),
                most_commits=MOST_COMMITS.get(in_flight)
                if (sync, conversations) == ("FULL", 2_000)
                else None,
                product=partial(product_chat, sync=sync, in_flight=in_flight, conversations=conversations),
                raw=partial(raw_chat, sync=sync),
            )
            for sync in syncs
            for conversations in CONVERSATIONS
            for in_flight in IN_FLIGHT
            # One message at a time is one conversation at a time, however many there are.
            if not (in_flight == 1 and conversations == 24)
        ),
    ]


if __name__ == "__main__":
    sys.exit(run_goals("chat", __doc__ or "", chat_goals()))
