from __future__ import annotations

import math
from typing import Any

import pytest

from shardline.actors.errors import BusError, Code
from shardline.runtime.retry import RetryPolicy, rest_us


def test_defaults_are_those_of_the_documentation() -> None:
    policy = RetryPolicy()

    assert policy.attempts == 6
    assert [policy.delay_s(failure, 0.999) for failure in (0, 1, 2)] == pytest.approx([0.4995, 0.999, 1.998])
    assert policy.delay_s(20, 0.5) == 15.0


@pytest.mark.parametrize(("failure", "bound_s"), [(0, 0.5), (1, 1.0), (5, 16.0), (6, 30.0), (7, 30.0)])
def test_without_jitter_the_wait_is_the_bound_itself(failure: int, bound_s: float) -> None:
    assert RetryPolicy(jitter="none").delay_s(failure, 0.1) == bound_s


def test_jitter_never_waits_less_than_the_floor() -> None:
    assert RetryPolicy().delay_s(0, 0.0) == 0.05
    assert RetryPolicy(base_delay_s=0.001).delay_s(0, 0.99) == 0.05
    assert RetryPolicy(base_delay_s=0.001, jitter="none").delay_s(0, 0.99) == 0.001


@pytest.mark.parametrize("failure", [1_100, 10**9, 10**400])
def test_a_huge_failure_number_does_not_overflow(failure: int) -> None:
    assert RetryPolicy(jitter="none").delay_s(failure, 0.5) == 30.0
    assert RetryPolicy(jitter="none", multiplier=1).delay_s(failure, 0.5) == 0.5
    assert RetryPolicy(jitter="none", multiplier=1.0).delay_s(failure, 0.5) == 0.5


@pytest.mark.parametrize(("max_retries", "spent_at"), [(0, 1), (3, 4)], ids=["one try", "four tries"])
def test_the_budget_is_spent_with_the_last_attempt(max_retries: int, spent_at: int) -> None:
    policy = RetryPolicy(max_retries=max_retries)

    assert policy.attempts == spent_at
    assert not policy.is_spent(spent_at - 1)
    assert policy.is_spent(spent_at)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_retries", -1),
        ("max_retries", 1.5),
        ("max_retries", True),
        ("max_retries", None),
        ("base_delay_s", 0),
        ("base_delay_s", -0.5),
        ("base_delay_s", math.inf),
        ("base_delay_s", math.nan),
        ("base_delay_s", "1"),
        ("multiplier", 0.5),
        ("multiplier", math.nan),
        ("multiplier", math.inf),
        ("max_delay_s", 0),
        ("max_delay_s", math.inf),
        ("jitter", "half"),
        ("jitter", None),
    ],
)
def test_a_bad_declaration_is_a_typed_error(field: str, value: Any) -> None:
    with pytest.raises(BusError) as caught:
        RetryPolicy(**{field: value})

    assert caught.value.code is Code.INVALID_MESSAGE
    assert caught.value.context["field"] == field


@pytest.mark.parametrize(
    ("due_us", "wait_us", "now_us", "rest"),
    [
        (None, None, 100, 0),
        (None, 50, 100, 0),
        (130, 50, 100, 30),
        (90, 50, 100, 0),
        (130, None, 100, 30),
        # The clock was set back by an hour: the wait is not longer than it was meant to be.
        (3_600_000_130, 50, 100, 50),
    ],
)
def test_the_rest_of_a_stored_wait(due_us: int | None, wait_us: int | None, now_us: int, rest: int) -> None:
    assert rest_us(due_us, wait_us, now_us) == rest
