"""What is past its time: how it is named, found and handed to the writer."""

from __future__ import annotations

from typing import Literal

from ..actors.value import value

PruneKind = Literal["messages", "sends", "events", "history", "controls", "instances"]


@value(kw_only=True)
class Prune:
    """What is past its time and has ended; rows that have not, or are gone, are passed over.

    Attributes:
        kind: Of rows. What a message left of its steps goes with what it said.
        rows: Ids to take away. Of the history one: it and all that was written before it goes, below anchors.
        emptied: Ids of messages, sends or events that stay for their key, without what they said.
    """

    kind: PruneKind
    rows: tuple[int, ...] = ()
    emptied: tuple[int, ...] = ()


@value(kw_only=True)
class Ages:
    """Up to when rows of each kind are past their time, microseconds since 1970 UTC.

    Attributes:
        content_us: What ended by then need say nothing any more.
        keys_us: What ended by then need not be known as a repeat any more; never later than `content_us`.
        history_us: Transitions, and openings.
        topics: Of event topics with a time of their own, in place of `content_us`.
    """

    content_us: int
    keys_us: int
    history_us: int
    topics: tuple[tuple[str, int], ...] = ()


@value(kw_only=True)
class Past:
    """What a page of rows holds that is past its time.

    Attributes:
        prune: To be committed, if `count` is not 0.
        count: Rows that go or are emptied.
        after: Where the next page begins; None, nothing behind this one is past its time.
    """

    prune: Prune
    count: int
    after: int | None


__all__ = ["Ages", "Past", "Prune", "PruneKind"]
