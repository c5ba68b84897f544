"""A circuit against a model that keeps every event and asks the whole list each time."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from shardline.runtime.breaker import (
    CLOSED,
    Breaker,
    Circuit,
    CircuitState,
    abandon,
    admit,
    fail,
    may_start,
    succeed,
)

KEYS = st.sampled_from("abcdef")


class CircuitMachine(RuleBasedStateMachine):
    """Times are halves, so that they add up exactly and the edges are met.

    The model: `failed_s` has the time of each failure since the last success, by conversation; `opened_s` when the
    circuit opened last, None while it is closed; `probe` is the one that was let through since.
    """

    @initialize(failures=st.integers(1, 4), window=st.integers(1, 8), opening=st.integers(1, 8))
    def begin(self, failures: int, window: int, opening: int) -> None:
        self.breaker = Breaker(failures=failures, window_s=window / 2, open_s=opening / 2)
        self.circuit: Circuit = CLOSED
        self.now_s = 0.0
        self.failed_s: dict[str, float] = {}
        self.opened_s: float | None = None
        self.was_half_open = False
        self.under_way: list[str] = []
        self.probe: str | None = None

    @property
    def model_may_start(self) -> bool:
        if self.opened_s is None:
            return True
        return self.probe is None and (
            self.was_half_open or self.now_s - self.opened_s >= self.breaker.open_s
        )

    def open_model(self) -> None:
        self.opened_s = self.now_s
        self.was_half_open = False
        self.probe = None
        self.failed_s = {}

    @rule(ticks=st.integers(0, 6))
    def wait(self, ticks: int) -> None:
        self.now_s += ticks / 2

    @rule(key=KEYS)
    def start(self, key: str) -> None:
        after = admit(self.circuit, now_s=self.now_s)
        assert (after is not None) == self.model_may_start
        if after is None:
            return
        self.circuit = after
        if self.opened_s is None:
            self.under_way.append(key)
        else:
            self.probe = key
            self.was_half_open = True

    @precondition(lambda self: self.under_way)
    @rule(data=st.data(), end=st.sampled_from(["succeed", "fail", "abandon"]))
    def end_one(self, data: st.DataObject, end: str) -> None:
        """It was let through by a closed circuit; whatever happened since, it is no probe."""
        key = self.under_way.pop(data.draw(st.integers(0, len(self.under_way) - 1)))
        self.end(key, end, is_probe=False)

    @precondition(lambda self: self.probe is not None)
    @rule(end=st.sampled_from(["succeed", "fail", "abandon"]))
    def end_probe(self, end: str) -> None:
        key, self.probe = self.probe, None
        assert key is not None
        self.end(key, end, is_probe=True)

    def end(self, key: str, end: str, *, is_probe: bool) -> None:
        decides = is_probe or self.opened_s is None
        if end == "succeed":
            self.circuit = succeed(self.circuit, is_probe=is_probe)
            if decides:
                self.failed_s, self.opened_s = {}, None
        elif end == "abandon":
            self.circuit = abandon(self.circuit, is_probe=is_probe)
        else:
            self.circuit = fail(self.circuit, self.breaker, key=key, now_s=self.now_s, is_probe=is_probe)
            if is_probe:
                self.open_model()
            elif decides:
                self.failed_s[key] = self.now_s
                recent = [
                    at_s for at_s in self.failed_s.values() if self.now_s - at_s < self.breaker.window_s
                ]
                if len(recent) >= self.breaker.failures:
                    self.open_model()

    @invariant()
    def it_stands_where_the_model_does(self) -> None:
        if self.opened_s is None:
            assert self.circuit.state is CircuitState.CLOSED
        else:
            assert self.circuit.state is (CircuitState.HALF_OPEN if self.was_half_open else CircuitState.OPEN)
            assert self.circuit.is_probing == (self.probe is not None)
        assert may_start(self.circuit, now_s=self.now_s) == self.model_may_start

    @invariant()
    def memory_is_bounded(self) -> None:
        assert len(self.circuit.failed) < self.breaker.failures
        assert len({key for key, _ in self.circuit.failed}) == len(self.circuit.failed)


TestCircuit = CircuitMachine.TestCase
