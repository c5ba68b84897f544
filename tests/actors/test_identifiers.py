import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardline.actors.errors import Code
from shardline.actors.identifiers import check_uuid_form, is_uuid7, new_uuid7, session_id_for
from tests.kits.words import SESSION, refused

STORE = "0194f5c0-8f6e-7d9d-a4d7-6d8d4f35f456"
MADE_AT_US = 1_760_000_000_123_456
FOREIGN_FORMS = [
    SESSION.upper(),
    SESSION.replace("-", ""),
    "{" + SESSION + "}",
    "urn:uuid:" + SESSION,
    "0194f5c0-8f6e-4d9d-a4d7-6d8d4f35f456",
    "0194f5c0-8f6e-7d9d-c4d7-6d8d4f35f456",
    "0194f5c0-8f6e-7d9d-74d7-6d8d4f35f456",
    "00000000-0000-0000-0000-000000000000",
]


def test_new_ids_are_uuid7_and_sort() -> None:
    made = [new_uuid7() for _ in range(1_000)]

    assert all(is_uuid7(value) for value in made)
    assert made == sorted(set(made))


@pytest.mark.parametrize("value", [*FOREIGN_FORMS, "", SESSION + "\n", " " + SESSION, SESSION[:-1] + "g"])
def test_other_forms_are_no_uuid7(value: str) -> None:
    assert is_uuid7(SESSION)
    assert not is_uuid7(value)


@pytest.mark.parametrize("value", FOREIGN_FORMS)
def test_a_uuid_in_another_spelling_is_refused(value: str) -> None:
    with refused(Code.INVALID_MESSAGE, "correlation_id"):
        check_uuid_form(value, "correlation_id")


@pytest.mark.parametrize(
    "value", [SESSION, "11", "bus_" + SESSION, "evt_20260216T111200Z_ab12cd34ef56", "0194f5c0"]
)
def test_other_ids_pass(value: str) -> None:
    assert check_uuid_form(value, "id") == value


@given(key=st.text(min_size=1), made_at_us=st.integers(0, 2**57))
def test_sessions_are_valid_and_dated(key: str, made_at_us: int) -> None:
    session = session_id_for(STORE, made_at_us, key)

    assert is_uuid7(session)
    assert uuid.UUID(session).variant == uuid.RFC_4122
    assert uuid.UUID(session).int >> 80 == made_at_us // 1000 % 2**48


def test_a_session_is_the_conversations_own_and_stays() -> None:
    sessions = {session_id_for(STORE, MADE_AT_US, f"tg:{chat}") for chat in range(1, 1_001)}
    elsewhere = session_id_for("0194f5c0-8f6e-7d9d-a4d7-6d8d4f35f457", MADE_AT_US, "tg:1")

    assert len(sessions) == 1_000
    assert elsewhere not in sessions
    # Golden: stored messages carry it, so it may never change.
    assert session_id_for(STORE, MADE_AT_US, "tg:1") == "0199c82c-c07b-7d19-948a-5fa11cc97f2c"
