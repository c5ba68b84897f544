"""The gate: suspects first, a few at once; everybody when the last of them has ended."""

from __future__ import annotations

from shardline.runtime.gate import Gate


def counting_gate(*suspects: int, at_once: int) -> tuple[Gate, list[bool]]:
    """A gate, and whether it was open at each of its calls to `changed`."""
    told: list[bool] = []
    gate = Gate(suspects, at_once=at_once, changed=lambda: told.append(gate.is_open))
    return gate, told


def test_without_suspects_everybody_enters_and_nobody_is_told() -> None:
    gate, told = counting_gate(at_once=1)

    assert gate.is_open
    assert gate.enter(7)
    gate.leave(7)
    assert told == []


def test_only_suspects_enter_and_only_so_many() -> None:
    gate, _ = counting_gate(1, 2, 3, at_once=2)

    assert not gate.is_open
    assert not gate.enter(9)
    assert gate.enter(1)
    assert gate.enter(2)
    assert not gate.enter(3)


def test_each_end_lets_the_next_in_and_the_last_one_everybody() -> None:
    gate, told = counting_gate(1, 2, at_once=1)
    assert gate.enter(1)
    gate.leave(1)
    assert gate.enter(2)
    assert not gate.enter(9)
    gate.leave(2)

    assert told == [False, True]
    assert gate.enter(9)


def test_a_suspect_runs_apart_once() -> None:
    """Its retry is a row like any other: a message that only fails must not keep the gate shut."""
    gate, _ = counting_gate(1, 2, at_once=1)
    assert gate.enter(1)
    gate.leave(1)

    assert not gate.enter(1)
    assert gate.enter(2)


def test_a_suspect_that_will_not_run_does_not_keep_the_gate_shut() -> None:
    gate, told = counting_gate(1, at_once=1)
    gate.leave(1)

    assert gate.is_open
    assert told == [True]
