"""Stores that are wrong in what they keep of turns that go on."""

from __future__ import annotations

import attrs

from shardline.storage.commands import Commit, InTurn, Part, StepWrite
from shardline.storage.journal import Journal
from shardline.storage.records import InboxStatus
from tests.kits.memory_mutants import WallStore, Wrong

STEPS = Wrong()

_STEP_BYTES = 256 * 1024


class TurnStore(WallStore):
    """A store that changes what a turn says."""

    def part(self, part: Part) -> Part:
        if not isinstance(part, Commit) or part.turn is None:
            return part
        return attrs.evolve(part, turn=self.turn(part.turn))

    def turn(self, turn: InTurn) -> InTurn | None:
        return turn


@STEPS.caught_by(
    "step_is_kept_with_its_message",
    "first_result_of_a_step_stays",
    "step_survives_what_befalls_its_message",
    "step_has_a_limit",
)
class ForgetsSteps(TurnStore):
    def turn(self, turn: InTurn) -> InTurn:
        return attrs.evolve(turn, steps=())


@STEPS.caught_by("step_is_kept_with_its_message")
class OneStepForAllMessages(WallStore):
    def __init__(self, store: Journal) -> None:
        super().__init__(store)
        self.steps: dict[str, bytes] = {}

    def part(self, part: Part) -> Part:
        if isinstance(part, Commit) and part.turn is not None:
            self.steps |= {step.name: step.value for step in part.turn.steps}
        return part

    def read_step(self, inbox_id: int, name: str) -> bytes | None:
        return self.steps.get(name)


@STEPS.caught_by("first_result_of_a_step_stays", "step_survives_what_befalls_its_message")
class DropsASecondResultInSilence(TurnStore):
    def __init__(self, store: Journal) -> None:
        super().__init__(store)
        self.names: set[tuple[int, str]] = set()

    def turn(self, turn: InTurn) -> InTurn:
        kept = [step for step in turn.steps if (turn.record.id, step.name) not in self.names]
        self.names |= {(turn.record.id, step.name) for step in kept}
        return attrs.evolve(turn, steps=tuple(kept))


@STEPS.caught_by("step_goes_with_a_purge")
class KeepsStepsOfPurgedMessages(TurnStore):
    def __init__(self, store: Journal) -> None:
        super().__init__(store)
        self.steps: dict[tuple[int, str], bytes] = {}

    def turn(self, turn: InTurn) -> InTurn:
        for step in turn.steps:
            self.steps[turn.record.id, step.name] = step.value
        return turn

    def read_step(self, inbox_id: int, name: str) -> bytes | None:
        return self.steps.get((inbox_id, name))


@STEPS.caught_by("end_of_a_turn_fences_what_comes_behind_it_in_the_same_batch")
class LooksBeforeTheBatch(TurnStore):
    def turn(self, turn: InTurn) -> InTurn | None:
        stored = self.real.inbox(turn.record.id)
        return None if stored is not None and stored.record == turn.record else turn


@STEPS.caught_by("turn_must_run_under_the_claim_it_names")
class BelievesEveryTurn(TurnStore):
    def turn(self, turn: InTurn) -> InTurn | None:
        stored = self.real.inbox(turn.record.id)
        return None if stored is None else attrs.evolve(turn, record=stored.record)


@STEPS.caught_by("turn_must_run_under_the_claim_it_names")
class LooksAtTheStatusAlone(TurnStore):
    def turn(self, turn: InTurn) -> InTurn:
        stored = self.real.inbox(turn.record.id)
        if stored is None or stored.record.status is not InboxStatus.RUNNING:
            return turn
        return attrs.evolve(turn, record=stored.record)


@STEPS.caught_by("send_before_the_end_of_its_turn_is_stored")
class SendsOnlyAtTheEnd(WallStore):
    def part(self, part: Part) -> Part:
        if not isinstance(part, Commit) or part.turn is None:
            return part
        return attrs.evolve(part, new_outbox=())


@STEPS.caught_by("step_has_a_limit")
class CutsLongSteps(TurnStore):
    def turn(self, turn: InTurn) -> InTurn:
        return attrs.evolve(
            turn, steps=tuple(StepWrite(step.name, step.value[:_STEP_BYTES]) for step in turn.steps)
        )
