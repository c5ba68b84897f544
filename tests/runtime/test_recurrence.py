"""How schedules repeat: even steps, cron expressions, and the nights when clocks change."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardline import BusError, Code, Cron, Every
from shardline.runtime.recurrence import pack_rule, unpack_rule, us_from_datetime

BERLIN = "Europe/Berlin"
US = 1_000_000
YEARS = st.integers(0, 80 * 365 * 86_400 * US)


def times(rule: Cron, start: str, count: int) -> list[str]:
    """The next times after a start, in UTC."""
    at_us = us_from_datetime(datetime.fromisoformat(start))
    found: list[str] = []
    for _ in range(count):
        at_us = rule.next_us(at_us)
        found.append((datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at_us)).strftime("%d %H:%M"))
    return found


@pytest.mark.parametrize(
    ("expression", "start", "wanted"),
    [
        ("30 2 * * *", "2026-10-24T12:00Z", ["25 00:30", "26 01:30"]),
        # Set between the two 02:30, or after the second.
        ("30 2 * * *", "2026-10-25T00:40Z", ["26 01:30"]),
        ("30 2 * * *", "2026-10-25T01:40Z", ["26 01:30"]),
        ("30 2 * * *", "2026-03-28T12:00Z", ["29 01:00", "30 00:30"]),
        # Two times that fall on the end of the gap are one.
        ("0 2,3 * * *", "2026-03-28T12:00Z", ["29 01:00", "30 00:00", "30 01:00"]),
        # A star in hour or minute: held against every minute that really passes.
        ("*/30 * * * *", "2026-10-25T00:10Z", ["25 00:30", "25 01:00", "25 01:30", "25 02:00"]),
        ("30 * * * *", "2026-03-29T00:10Z", ["29 00:30", "29 01:30"]),
        ("0 9 * * MON", "2026-10-24T00:00Z", ["26 08:00", "02 08:00"]),
    ],
)
def test_changed_clocks(expression: str, start: str, wanted: list[str]) -> None:
    assert times(Cron(expression, BERLIN), start, len(wanted)) == wanted


def days_by_hand(zone: str, year: int, hour: int, minute: int) -> list[datetime]:
    """When a time of day comes in a year, by the rule as it is told to people: found minute by minute."""
    local = ZoneInfo(zone)
    found: set[datetime] = set()
    day = datetime(year, 1, 1, hour, minute)  # noqa: DTZ001 (what the clocks of the zone show)
    while day.year == year:
        shown = day.replace(tzinfo=local).astimezone(UTC)
        while shown.astimezone(local).replace(tzinfo=None) < day:
            shown += timedelta(minutes=1)
        if shown.astimezone(local).replace(tzinfo=None) != day:
            # Skipped: back to the minute in which the gap ended.
            while (shown - timedelta(minutes=1)).astimezone(local).replace(tzinfo=None) >= day:
                shown -= timedelta(minutes=1)
        found.add(shown)
        day += timedelta(days=1)
    return sorted(found)


@pytest.mark.parametrize(
    ("zone", "year"),
    [
        (BERLIN, 2026),
        ("Australia/Lord_Howe", 2025),  # half an hour
        ("America/Sao_Paulo", 2018),  # the gap is at midnight
        ("Africa/Casablanca", 2025),  # back in the middle of the year
        ("Antarctica/Troll", 2025),  # two hours
        ("America/St_Johns", 2010),  # at one minute past midnight
        ("Asia/Pyongyang", 2018),  # the gap ends with the day
        ("Pacific/Apia", 2011),  # a whole day is skipped
        ("Asia/Kolkata", 2026),  # never changed
    ],
)
@pytest.mark.parametrize("at", ["00:00", "00:30", "01:15", "02:30", "23:30"])
def test_a_daily_time_comes_as_it_is_told_in_every_kind_of_zone(zone: str, year: int, at: str) -> None:
    rule, begin = Cron.daily(at, zone=zone), datetime(year, 1, 1, tzinfo=ZoneInfo(zone)).astimezone(UTC)
    wanted = days_by_hand(zone, year, *map(int, at.split(":")))
    came: list[datetime] = []
    due_us = us_from_datetime(begin) - 1
    for _ in wanted:
        due_us = rule.next_us(due_us)
        came.append(datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=due_us))

    assert came == wanted


@given(now_us=YEARS)
def test_a_daily_time_comes_every_day_and_never_goes_back(now_us: int) -> None:
    rule = Cron.daily("02:30", zone=BERLIN)
    due_us = rule.next_us(now_us)

    assert now_us < due_us <= now_us + 25 * 3600 * US
    local = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=due_us)).astimezone(ZoneInfo(BERLIN))
    assert (local.hour, local.minute) in {(2, 30), (3, 0)}


@given(now_us=YEARS, late_us=st.integers(0, 10**12), seconds=st.floats(1, 1e6))
def test_even_steps_stay_even(now_us: int, late_us: int, seconds: float) -> None:
    rule = Every(seconds)
    first_us = rule.next_us(now_us)
    next_us = rule.next_us(first_us + late_us, first_us)

    assert first_us == now_us + rule.step_us
    assert (next_us - first_us) % rule.step_us == 0
    assert first_us + late_us < next_us <= first_us + late_us + rule.step_us


@pytest.mark.parametrize("rule", [Every(60), Every(1.5), Cron("5 4 * * *"), Cron.daily("23:59", zone=BERLIN)])
def test_a_rule_is_read_as_it_was_stored(rule: Every | Cron) -> None:
    text, zone = pack_rule(rule)
    assert text is not None
    assert unpack_rule(text, zone) == rule


@pytest.mark.parametrize(
    ("expression", "zone"),
    [
        ("* * * * * *", "UTC"),
        ("* * * *", "UTC"),
        ("61 * * * *", "UTC"),
        ("x * * * *", "UTC"),
        ("0 0 30 2 *", "UTC"),
        (5, "UTC"),
        ("0 0 * * *", "Europe/Atlantis"),
        ("0 0 * * *", "/etc/localtime"),
        ("0 0 * * *", "../UTC"),
        ("0 0 * * *", ""),
        ("0 0 * * *", 5),
    ],
)
def test_an_unknown_expression_or_zone_is_refused(expression: str, zone: str) -> None:
    with pytest.raises(BusError) as caught:
        Cron(expression, zone)
    assert caught.value.code is Code.INVALID_MESSAGE


@pytest.mark.parametrize("at", ["24:00", "2", "02:3", "-1:30", "02:60", "a:30", "02:30:00"])
def test_no_time_of_day_is_refused(at: str) -> None:
    with pytest.raises(BusError) as caught:
        Cron.daily(at)
    assert caught.value.code is Code.INVALID_MESSAGE


@pytest.mark.parametrize("seconds", [0, 0.5, -1, float("nan"), float("inf"), True, "60", None, 1e10])
def test_no_distance_is_refused(seconds: float) -> None:
    with pytest.raises(BusError) as caught:
        Every(seconds)
    assert caught.value.code is Code.INVALID_MESSAGE


@pytest.mark.parametrize("rule", ["every x", "every 0", "nonsense"])
def test_a_stored_rule_of_another_version_is_refused(rule: str) -> None:
    with pytest.raises(BusError) as caught:
        unpack_rule(rule, None)
    assert caught.value.code is Code.INVALID_MESSAGE
