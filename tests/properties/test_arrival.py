"""What arrives is checked in two ways, by what nearly all texts are and by every rule: both say the same."""

from hypothesis import example, given
from hypothesis import strategies as st

from shardline.actors.errors import BusError
from shardline.actors.message import BusMessage, validate_message
from shardline.adapters.base import Inbound
from shardline.runtime.arrival import check_arrival, message_of

WORDS = st.one_of(
    st.sampled_from(["", " ", "a", " a", "a ", "a\n", "a\nb", "é", "\ud800", "x" * 90_000, "x" * 400_000]),
    st.text(max_size=4),
)


def told(check: object, inbound: Inbound, made: BusMessage) -> object:
    """What a check says: the code and field of its refusal, or None."""
    try:
        if check is validate_message:
            validate_message(made)
        else:
            check_arrival(inbound, made)
    except BusError as error:
        return error.code, error.context.get("field")
    return None


@given(
    st.builds(
        Inbound,
        platform_message_id=WORDS,
        address=WORDS,
        text=WORDS,
        sender=st.none() | WORDS,
        reply_to=st.none() | WORDS,
        sent_at=st.sampled_from([None, "2026-01-01T00:00:00Z", "1969-12-31T23:59:59Z"]),
        topic=st.sampled_from(["chat.message", "dm.reply.v1", "", "my.topic", "No Topic"]),
    )
)
@example(Inbound(platform_message_id="1", address="a", text="x" * 300_000, sender="s" * 200_000))
@example(Inbound(platform_message_id="1" * 350_000, address="a", text="x"))
def test_the_short_check_of_an_arrival_says_what_the_rules_say(inbound: Inbound) -> None:
    try:
        made = message_of(
            inbound,
            channel="fake",
            prefix="fake",
            store_uuid="018f0000-0000-7000-8000-000000000000",
            store_made_at_us=1_760_000_000_000_000,
            now_us=1_760_000_000_000_000,
        )
    except BusError:
        return

    assert told(check_arrival, inbound, made) == told(validate_message, inbound, made)
