import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardline.actors.errors import Code
from shardline.actors.instants import MAX_AT_US, check_rfc3339, rfc3339_from_us, us_from_rfc3339
from tests.kits.words import refused


@pytest.mark.parametrize(
    ("text", "at_us"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2026-02-16T11:12:00Z", 1_771_240_320_000_000),
        ("2026-02-16T13:12:00+02:00", 1_771_240_320_000_000),
        ("2026-02-16T11:12:00.5Z", 1_771_240_320_500_000),
        ("2026-02-16T11:12:00.123456789Z", 1_771_240_320_123_456),
        ("2024-02-29T00:00:00-23:59", 1_709_251_140_000_000),
    ],
)
def test_time_stamps_are_read(text: str, at_us: int) -> None:
    assert check_rfc3339(text, "sent_at") == text
    assert us_from_rfc3339(text) == at_us


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-02-16",
        "2026-02-16T11:12:00",
        "2026-02-16 11:12:00Z",
        "2026-02-16t11:12:00z",
        "2026-02-16T11:12Z",
        "2026-02-16T11:12:00.Z",
        "2026-02-16T11:12:00,5Z",
        "2026-02-16T11:12:00+0200",
        "2026-02-16T11:12:00+24:00",
        "2026-02-30T11:12:00Z",
        "2026-13-01T11:12:00Z",
        "2026-02-16T24:00:00Z",
        "2026-02-16T11:12:60Z",
        "2026-W07-1T11:12:00Z",
        "1760000000",
        " 2026-02-16T11:12:00Z",
        "2026-02-16T11:12:00Z\n",
        "٢026-02-16T11:12:00Z",
    ],
)
def test_other_forms_are_refused(text: str) -> None:
    with refused(Code.INVALID_MESSAGE, "sent_at"):
        check_rfc3339(text, "sent_at")


@given(at_us=st.integers(0, MAX_AT_US))
def test_instants_come_back(at_us: int) -> None:
    assert us_from_rfc3339(rfc3339_from_us(at_us)) == at_us


def test_written_in_utc() -> None:
    assert rfc3339_from_us(1_771_240_320_000_000) == "2026-02-16T11:12:00Z"
    assert rfc3339_from_us(1_771_240_320_500_000) == "2026-02-16T11:12:00.500000Z"
    assert rfc3339_from_us(MAX_AT_US) == "9999-12-31T23:59:59.999999Z"
