import pytest

from shardline.actors.restart import (
    Backoff,
    Restart,
    RestartBudget,
    Strategy,
    affected,
    should_restart,
    spend,
)

NAMES = ("journal", "inbox", "shards")


@pytest.mark.parametrize(
    ("strategy", "failed", "expected"),
    [
        (Strategy.ONE_FOR_ONE, "journal", ("journal",)),
        (Strategy.ONE_FOR_ONE, "shards", ("shards",)),
        (Strategy.ONE_FOR_ALL, "inbox", NAMES),
        (Strategy.REST_FOR_ONE, "journal", NAMES),
        (Strategy.REST_FOR_ONE, "inbox", ("inbox", "shards")),
        (Strategy.REST_FOR_ONE, "shards", ("shards",)),
    ],
)
def test_who_shares_a_crash(strategy: Strategy, failed: str, expected: tuple[str, ...]) -> None:
    assert affected(strategy, NAMES, failed) == expected


@pytest.mark.parametrize("strategy", Strategy)
def test_a_stranger_is_no_child(strategy: Strategy) -> None:
    with pytest.raises(ValueError, match="stranger"):
        affected(strategy, list(NAMES), "stranger")


@pytest.mark.parametrize(
    ("restart", "after_end", "after_crash"),
    [
        (Restart.PERMANENT, True, True),
        (Restart.TRANSIENT, False, True),
        (Restart.TEMPORARY, False, False),
    ],
)
def test_who_runs_again(restart: Restart, after_end: bool, after_crash: bool) -> None:
    assert should_restart(restart, crashed=False) is after_end
    assert should_restart(restart, crashed=True) is after_crash


def test_the_sixth_restart_within_the_period_is_one_too_many() -> None:
    budget = RestartBudget()
    spent_s: tuple[float, ...] = ()
    for now_s in (100.0, 101.0, 102.0, 103.0, 104.0):
        after = spend(spent_s, now_s, budget)
        assert after is not None
        assert after == (*spent_s, now_s)
        spent_s = after

    assert spend(spent_s, 129.9, budget) is None
    assert spend(spent_s, 130.0, budget) == (101.0, 102.0, 103.0, 104.0, 130.0)


def test_without_intensity_the_first_crash_escalates() -> None:
    assert spend((), 0.0, RestartBudget(intensity=0)) is None


def test_the_default_delay_grows_from_a_tenth_to_five_seconds() -> None:
    assert [Backoff().delay_s(n) for n in range(8)] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]


def test_a_delay_far_out_is_the_longest_one_and_no_overflow() -> None:
    assert Backoff().delay_s(1_000_000) == 5.0
    assert Backoff(initial_s=0.5, multiplier=1.0).delay_s(1_000_000) == 0.5
    assert Backoff(initial_s=9.0, max_s=2.0).delay_s(0) == 2.0


def test_bad_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="intensity"):
        RestartBudget(intensity=-1)
    with pytest.raises(ValueError, match="period_s"):
        RestartBudget(period_s=0)
    with pytest.raises(ValueError, match="initial_s"):
        Backoff(initial_s=0)
    with pytest.raises(ValueError, match="max_s"):
        Backoff(max_s=-1)
    with pytest.raises(ValueError, match="multiplier"):
        Backoff(multiplier=0.5)
