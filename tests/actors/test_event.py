import hashlib
import math

import attrs
import pytest

from shardline.actors.errors import Code
from shardline.actors.event import Event, hash_payload, validate_event
from shardline.actors.plain import Plain
from tests.kits.words import MESSAGE_ID, refused, spoiled

EVENT = Event(id=MESSAGE_ID, ts_us=1_760_000_000_000_000, topic="order.shipped", key="tg:1", payload={"n": 1})


def test_events_pass_bare_and_full() -> None:
    validate_event(Event(id="evt_1", ts_us=0, topic="a"))
    validate_event(
        attrs.evolve(
            EVENT,
            headers={"ct": "json", "x": ""},
            payload_sha256=hash_payload({"n": 1}),
            space_id="shared:household",
            type="WORKSPACE_BROADCAST",
            actor="gray",
            trace_id="trace-123",
            idem_key="act:a1|ok",
            ttl_s=0.5,
            hops=64,
        )
    )


@pytest.mark.parametrize(
    ("payload", "hashed"),
    [
        ({"b": 1, "a": [True, None, "é"]}, '{"a":[true,null,"é"],"b":1}'.encode()),
        ("text", b"text"),
        (b"\x00\xff", b"\x00\xff"),
        (None, b"null"),
        ([], b"[]"),
    ],
)
def test_the_hash_is_of_a_fixed_form(payload: Plain, hashed: bytes) -> None:
    assert hash_payload(payload) == hashlib.sha256(hashed).hexdigest()
    validate_event(attrs.evolve(EVENT, payload=payload, payload_sha256=hash_payload(payload)))


@pytest.mark.parametrize("claimed", ["", "0" * 64, hash_payload({"n": 1}).upper(), hash_payload({"n": 2}), 5])
def test_a_wrong_hash_is_refused(claimed: str) -> None:
    with refused(Code.INVALID_MESSAGE, "payload_sha256"):
        validate_event(attrs.evolve(EVENT, payload_sha256=claimed))


@pytest.mark.parametrize("payload", [{"x": b"a"}, {"x": math.nan}, "\ud800"])
def test_what_has_no_fixed_form_has_no_hash(payload: Plain) -> None:
    with refused(Code.INVALID_MESSAGE, "$"):
        hash_payload(payload)


@pytest.mark.parametrize("topic", ["", "A", "a..b", "system.metrics"])
def test_bad_topic(topic: str) -> None:
    with refused(Code.INVALID_TOPIC):
        validate_event(attrs.evolve(EVENT, topic=topic))


def test_the_runtime_may_use_its_topics() -> None:
    validate_event(attrs.evolve(EVENT, topic="system.metrics"), allow_system=True)


@pytest.mark.parametrize(
    ("field", "bad"),
    [
        ("id", ""),
        ("id", " 1"),
        ("id", MESSAGE_ID.upper()),
        ("ts_us", -1),
        ("ts_us", 1.5),
        ("ts_us", True),
        ("ts_us", 253_402_300_800_000_000),
        ("key", ""),
        ("key", "a "),
        ("space_id", ""),
        ("type", "\n"),
        ("actor", ""),
        ("trace_id", ""),
        ("idem_key", ""),
        ("idem_key", 5),
        ("ttl_s", 0),
        ("ttl_s", -1),
        ("ttl_s", math.nan),
        ("ttl_s", math.inf),
        ("ttl_s", True),
        ("ttl_s", "60"),
        ("hops", -1),
        ("headers", ["a"]),
        ("headers", {"": "a"}),
        ("headers", {"a": 1}),
        ("headers", {1: "a"}),
        ("headers", {"a": "\ud800"}),
        ("headers", {f"h{n}": "" for n in range(65)}),
    ],
)
def test_bad_field_is_named(field: str, bad: object) -> None:
    with refused(Code.INVALID_MESSAGE, field):
        validate_event(spoiled(EVENT, **{field: bad}))


def test_payload_faults_are_named_by_path() -> None:
    """F48: {"x": nan} is refused naming $.x."""
    with refused(Code.INVALID_MESSAGE, "$.x"):
        validate_event(attrs.evolve(EVENT, payload={"x": math.nan}))
