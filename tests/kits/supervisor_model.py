"""What a tree of supervisors should do, without tasks: the model beside which the real one is held.

A deed happens while the tree is at rest, and all that follows from it is in `events` at once: `+a` runs, `-a` has
ended. With `cuts` on, the first restart that is planned raises `Cut` instead: the tree rests in a back-off.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Literal

import attrs

from shardline.actors.errors import BusError, Code
from shardline.actors.restart import Restart, RestartBudget, Strategy


class Ordinary(Exception):
    """A crash that counts."""


class Fatal(Exception):
    """A child may be declared so that this ends its supervisor at once."""


class Excused(Exception):
    """A child may be declared so that this spends no budget."""


class Cut(Exception):
    """A restart was planned, and nothing has started yet."""


@attrs.define(eq=False, kw_only=True)
class Node:
    """An actor, or with `children` a supervisor. `escalates`: on no crash, on `Fatal`, or on every end."""

    restart: Restart
    escalates: Literal["never", "fatal", "always"] = "never"
    excuses: bool = False
    children: list[Node] | None = None
    strategy: Strategy = Strategy.ONE_FOR_ONE
    budget: RestartBudget = RestartBudget()
    name: str = ""
    parent: Node | None = None
    is_added: bool = False
    runs: bool = False
    has_ended: bool = False
    starts: int = 0
    crashes: int = 0
    last_error: Exception | None = None
    faults: deque[Exception] = attrs.field(factory=deque[Exception])
    """What its next starts fail with."""
    spent_s: list[float] = attrs.field(factory=list[float])
    waiting: list[Node] = attrs.field(factory=list["Node"])

    def walk(self) -> Iterator[Node]:
        """This one and all below it, in start order."""
        yield self
        for child in self.children or ():
            yield from child.walk()


class Model:
    """The tree below `root`."""

    def __init__(self, root: Node) -> None:
        self.root = root
        root.restart = Restart.PERMANENT
        self.events: list[str] = []
        self.crashes = 0
        self.leaf_crashes = 0
        self.cuts = False
        self.is_up = False
        self.escaped: Exception | None = None
        self._now_s = 0.0
        self._made = 0
        for node in root.walk():
            self._name(node)

    def run(self, now_s: float) -> None:
        """Start all."""
        self._now_s, self.is_up, self.escaped = now_s, False, None
        self.escaped = self._start(self.root)
        self.is_up = self.escaped is None

    def end(self, leaf: Node, error: Exception | None, now_s: float) -> None:
        """An actor that runs ends."""
        self._now_s = now_s
        self.events.append(f"-{leaf.name}")
        self._settle(leaf, error)

    def add(self, to: Node, leaf: Node) -> None:
        """One more, as the last."""
        leaf.is_added, leaf.parent = True, to
        _children(to).append(leaf)
        self._name(leaf)
        if to.runs:
            self._start(leaf)

    def remove(self, node: Node) -> None:
        """One less."""
        self._stop(node)
        _forget(node)

    def stop(self) -> None:
        """The end of the run."""
        self._stop(self.root)

    def _name(self, node: Node) -> None:
        self._made += 1
        node.name = f"n{self._made}"
        for child in node.children or ():
            child.parent = node

    def _start(self, node: Node) -> Exception | None:
        """What it failed with, if it could not start."""
        node.starts += 1
        node.runs, node.has_ended = True, False
        if node.children is None:
            self.events.append(f"+{node.name}")
            if not node.faults:
                return None
            self.events.append(f"-{node.name}")
            return node.faults.popleft()
        node.spent_s.clear()
        node.waiting = list(node.children)
        for child in node.children:
            child.has_ended = False
        return self._advance(node)

    def _advance(self, supervisor: Node) -> Exception | None:
        while supervisor.waiting:
            child = supervisor.waiting[0]
            error = self._start(child)
            if error is None:
                supervisor.waiting.remove(child)
                continue
            escalated = self._ended(child, error)
            if escalated is not None:
                return escalated
        return None

    def _settle(self, node: Node, error: Exception | None) -> None:
        supervisor = node.parent
        if supervisor is None:
            self.escaped = error
            return
        escalated = self._ended(node, error) or self._advance(supervisor)
        if escalated is not None:
            self._settle(supervisor, escalated)

    def _ended(self, child: Node, error: Exception | None) -> Exception | None:
        """Decide what the end of a child means; what escalates is handed back."""
        supervisor = child.parent
        assert supervisor is not None
        child.runs = False
        if error is not None:
            child.crashes += 1
            child.last_error = error
            self.crashes += 1
            self.leaf_crashes += child.children is None
        runs_on = child.restart is Restart.PERMANENT or (
            child.restart is Restart.TRANSIENT and error is not None
        )
        if (runs_on or error is not None) and (
            child.escalates == "always" or (child.escalates == "fatal" and isinstance(error, Fatal))
        ):
            return self._escalate(child, supervisor, error)
        if not runs_on:
            child.has_ended = True
            supervisor.waiting = [one for one in supervisor.waiting if one is not child]
            if child.is_added:
                _forget(child)
            return None
        if not (child.excuses and isinstance(error, Excused)):
            budget = supervisor.budget
            supervisor.spent_s = [s for s in supervisor.spent_s if self._now_s - s < budget.period_s]
            if len(supervisor.spent_s) == budget.intensity:
                return self._escalate(child, supervisor, error)
            supervisor.spent_s.append(self._now_s)
        self._share(child, supervisor)
        return None

    def _share(self, child: Node, supervisor: Node) -> None:
        """Stop all that share the crash; they wait to start again."""
        children = _children(supervisor)
        first = 0 if supervisor.strategy is Strategy.ONE_FOR_ALL else children.index(child)
        last = first if supervisor.strategy is Strategy.ONE_FOR_ONE else len(children)
        group = [one for one in children[first : last + 1] if not one.has_ended]
        for one in reversed(group):
            self._stop(one)
        wanted = {*group, *supervisor.waiting}
        supervisor.waiting = [one for one in children if one in wanted and not one.has_ended]
        if self.cuts:
            raise Cut

    def _escalate(self, child: Node, supervisor: Node, error: Exception | None) -> Exception:
        child.has_ended = True
        if child.is_added and child.restart is Restart.TEMPORARY:
            _forget(child)
        self._stop(supervisor, by_itself=True)
        return error or BusError(Code.BUS_CLOSED, "a permanent actor has ended")

    def _stop(self, node: Node, *, by_itself: bool = False) -> None:
        if not node.runs:
            return
        node.runs = False
        node.waiting.clear()
        for child in reversed(list(node.children or ())):
            self._stop(child)
        if node.children is None:
            self.events.append(f"-{node.name}")
        if node.restart is Restart.TEMPORARY and not by_itself:
            node.has_ended = True
            if node.is_added:
                _forget(node)


def _children(supervisor: Node) -> list[Node]:
    assert supervisor.children is not None
    return supervisor.children


def _forget(node: Node) -> None:
    if node.parent is not None and node in _children(node.parent):
        _children(node.parent).remove(node)
