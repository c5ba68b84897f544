"""The restart budget against a model that forgets nothing."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from shardline.actors.restart import RestartBudget, spend


class RestartBudgetMachine(RuleBasedStateMachine):
    """Ticks are halves, so that times add up exactly and the period's edge is met."""

    @initialize(intensity=st.integers(0, 4), period_ticks=st.integers(1, 12))
    def open_budget(self, intensity: int, period_ticks: int) -> None:
        self.budget = RestartBudget(intensity=intensity, period_s=period_ticks / 2)
        self.spent_s: tuple[float, ...] = ()
        self.granted_s: list[float] = []
        self.now_s = 0.0

    @rule(ticks=st.integers(0, 8))
    def wait(self, ticks: int) -> None:
        self.now_s += ticks / 2

    @rule()
    def crash(self) -> None:
        after = spend(self.spent_s, self.now_s, self.budget)
        recent = sum(at_s > self.now_s - self.budget.period_s for at_s in self.granted_s)
        assert (after is None) == (recent >= self.budget.intensity)
        if after is not None:
            assert after[-1] == self.now_s
            self.spent_s = after
            self.granted_s.append(self.now_s)

    @invariant()
    def no_period_holds_more_than_the_intensity(self) -> None:
        for end_s in self.granted_s:
            inside = [at_s for at_s in self.granted_s if end_s - self.budget.period_s < at_s <= end_s]
            assert len(inside) <= self.budget.intensity

    @invariant()
    def memory_is_bounded(self) -> None:
        assert len(self.spent_s) <= self.budget.intensity


TestRestartBudget = RestartBudgetMachine.TestCase
