"""Token buckets against a bucket that counts."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardline import BusError, Code
from shardline.runtime.rates import Rate, after_return, after_take, wait_s


class Counted:
    """The bucket as everybody draws it: so many tokens, filled up as time passes."""

    def __init__(self, rate: Rate) -> None:
        self.rate = rate
        self.tokens = float(rate.burst)
        self.at_s = 0.0

    def take(self, now_s: float) -> bool:
        self.tokens = min(self.rate.burst, self.tokens + (now_s - self.at_s) * self.rate.per_s)
        self.at_s = now_s
        if self.tokens < 1 - 1e-9:
            return False
        self.tokens -= 1
        return True


@given(
    st.builds(Rate, st.sampled_from([0.25, 0.5, 1.0, 2.0, 4.0]), st.integers(1, 5)),
    st.lists(st.integers(0, 40), max_size=60),
)
def test_it_lets_through_what_a_counting_bucket_lets_through(rate: Rate, steps: list[int]) -> None:
    model, full_s, now_s = Counted(rate), -math.inf, 0.0
    for step in steps:
        now_s += step / 8
        may = wait_s(rate, full_s, now_s) == 0
        assert may is model.take(now_s)
        if may:
            full_s = after_take(rate, full_s, now_s)


@given(st.integers(1, 5), st.integers(0, 20))
def test_the_wait_is_exact_and_what_is_returned_can_be_taken_again(burst: int, takes: int) -> None:
    rate, full_s, now_s = Rate(2.0, burst), -math.inf, 100.0
    for _ in range(takes):
        now_s += wait_s(rate, full_s, now_s)
        assert wait_s(rate, full_s, now_s) == 0
        full_s = after_take(rate, full_s, now_s)
    assert now_s == 100.0 + max(0, takes - burst) / 2
    if takes:
        assert wait_s(rate, after_return(rate, full_s), now_s) == 0


@pytest.mark.parametrize(
    ("per_s", "burst"), [(0, 1), (-1, 1), (math.inf, 1), (math.nan, 1), (1, 0), (1, 1.5)]
)
def test_a_rate_that_means_nothing_is_refused(per_s: float, burst: int) -> None:
    with pytest.raises(BusError) as refused:
        Rate(per_s, burst)
    assert refused.value.code is Code.INVALID_MESSAGE
