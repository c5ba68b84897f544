"""What a control record says, and what is refused in one."""

from __future__ import annotations

import attrs
import pytest

from shardline.actors.errors import Code
from shardline.runtime.control.verbs import (
    MAX_ROWS,
    Cancel,
    CancelTimer,
    Forget,
    PublishMessage,
    Purge,
    Requeue,
    Resolve,
    RowRef,
    Verb,
    read_verb,
    verb_args,
    verb_word,
)
from tests.kits.words import make_message, refused

MESSAGE = attrs.evolve(make_message(), raw=None)
"""The wire form has no room for the update's bytes."""


@pytest.mark.parametrize(
    "verb",
    [
        Requeue((RowRef("in", 7),)),
        Requeue((RowRef("in", 7), RowRef("out", 9))),
        Purge(1_760_000_000_000_000),
        Resolve(RowRef("out", 1), "resend"),
        Cancel(RowRef("out", 1), "not wanted"),
        CancelTimer("timer-1-2-3-0"),
        Forget("unreachable", "telegram", "tg:7"),
        Forget("alias", "telegram", "-4001"),
        PublishMessage(MESSAGE),
    ],
    ids=verb_word,
)
def test_a_verb_is_read_back_as_it_was_written(verb: Verb) -> None:
    assert read_verb(verb_word(verb), verb_args(verb)) == verb


@pytest.mark.parametrize(
    ("word", "args"),
    [
        ("drop", "{}"),
        ("cancel_timer", "{}"),
        ("cancel_timer", '{"timer": 7}'),
        ("forget", '{"what": "pause", "channel": "fake", "name": "1"}'),
        ("forget", '{"what": "alias", "channel": "fake"}'),
        ("requeue", "[]"),
        ("requeue", "{}"),
        ("requeue", '{"rows": []}'),
        ("requeue", '{"rows": ["in-7"], "more": 1}'),
        ("requeue", '{"rows": ["in7"]}'),
        ("requeue", '{"rows": ["in--7"]}'),
        ("requeue", '{"rows": ["in-007"]}'),
        ("requeue", '{"rows": ["in-7 "]}'),
        ("requeue", '{"rows": [7]}'),
        ("purge", '{"older_than_us": "x"}'),
        ("resolve", '{"row": "out-1", "decision": "maybe"}'),
        ("resolve", '{"row": "in-1", "decision": "sent"}'),
        ("cancel", '{"row": "in-1"}'),
        ("publish", '{"message": {}}'),
        ("publish", "not json"),
    ],
)
def test_a_record_that_says_something_else_is_refused(word: str, args: str) -> None:
    with refused(Code.INVALID_MESSAGE):
        read_verb(word, args)


def test_one_record_names_a_bounded_number_of_rows() -> None:
    rows = tuple(RowRef("in", number) for number in range(MAX_ROWS + 1))

    with refused(Code.TOO_LARGE):
        verb_args(Requeue(rows))
    with refused(Code.INVALID_MESSAGE):
        verb_args(Requeue(()))
