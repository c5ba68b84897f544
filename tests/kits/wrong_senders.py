"""Adapters that are wrong in what they send, look up or answer to a repeat."""

from __future__ import annotations

from typing import ClassVar

import attrs
import trio

from shardline.actors.errors import Code, Permanence
from shardline.adapters.base import (
    NotSent,
    Outbound,
    SendOutcome,
    Sent,
    Uncertain,
)
from tests.kits.ram_channel import Ram, RamChannel, Wrong

SENDERS = Wrong()


@SENDERS.caught_by("what_is_sent_is_delivered_once")
class SendsTwice(RamChannel):
    async def send(self, out: Outbound) -> SendOutcome:
        self.platform.got.append(out)
        self.platform.got.append(out)
        return Sent(None)


@SENDERS.caught_by("what_is_sent_is_delivered_once")
class SendsNothing(RamChannel):
    async def send(self, out: Outbound) -> SendOutcome:
        return Sent(None)


@SENDERS.caught_by("what_is_sent_is_delivered_once")
class SendsToTheFirst(RamChannel):
    async def send(self, out: Outbound) -> SendOutcome:
        return await super().send(attrs.evolve(out, address="ann"))


@SENDERS.caught_by("what_is_sent_is_delivered_once")
class IsNeverSure(RamChannel):
    async def send(self, out: Outbound) -> SendOutcome:
        await super().send(out)
        return Uncertain("who knows")


@SENDERS.caught_by("what_is_sent_is_delivered_once")
class DedupesByText(RamChannel):
    def has(self, out: Outbound) -> bool:
        return any((one.address, one.text) == (out.address, out.text) for one in self.platform.got)


@SENDERS.caught_by("sends_go_side_by_side")
class OneSlotForAll(RamChannel):
    out: Outbound

    async def send(self, out: Outbound) -> SendOutcome:
        self.out = out
        await trio.lowlevel.checkpoint()
        self.platform.got.append(self.out)
        return Sent(None)


@SENDERS.caught_by("sends_go_side_by_side")
class BusyWithOne(RamChannel):
    is_busy = False

    async def send(self, out: Outbound) -> SendOutcome:
        if self.is_busy:
            return NotSent(Code.RATE_LIMITED, Permanence.TRANSIENT)
        self.is_busy = True
        try:
            return await super().send(out)
        finally:
            self.is_busy = False


@SENDERS.caught_by("an_ordinary_failure_is_an_outcome")
class RaisesWhenCut(RamChannel):
    async def send(self, out: Outbound) -> SendOutcome:
        if self.platform.is_cut:
            raise ConnectionError("no line")
        return await super().send(out)


@SENDERS.caught_by("an_ordinary_failure_is_an_outcome")
class SentWhenCut(RamChannel):
    async def send(self, out: Outbound) -> SendOutcome:
        await super().send(out)
        return Sent(None)


@SENDERS.caught_by("an_ordinary_failure_is_an_outcome")
class HangsWhenCut(RamChannel):
    async def send(self, out: Outbound) -> SendOutcome:
        if self.platform.is_cut:
            await trio.sleep_forever()
        return await super().send(out)


@SENDERS.caught_by("an_ordinary_failure_is_an_outcome")
class IsUncertainByACode(RamChannel):
    async def send(self, out: Outbound) -> SendOutcome:
        return NotSent(Code.DELIVERY_UNCERTAIN, Permanence.UNCERTAIN)


@SENDERS.caught_by("two_channels_send_apart")
class KeysOfAll(RamChannel):
    keys: ClassVar[set[tuple[Ram, str]]] = set()

    def has(self, out: Outbound) -> bool:
        return any(key == out.idempotency_key for _, key in self.keys)

    async def send(self, out: Outbound) -> SendOutcome:
        outcome = await super().send(out)
        self.keys.add((self.platform, out.idempotency_key))
        return outcome


@SENDERS.caught_by("two_channels_send_apart")
class LooksUpEverywhere(RamChannel):
    keys: ClassVar[set[str]] = set()

    async def send(self, out: Outbound) -> SendOutcome:
        self.keys.add(out.idempotency_key)
        return await super().send(out)

    async def reconcile(self, out: Outbound) -> Sent | NotSent | None:
        return Sent(None) if out.idempotency_key in self.keys else await super().reconcile(out)


@SENDERS.caught_by("a_lookup_agrees_with_what_was_sent")
class FindsPartsOfKeys(RamChannel):
    async def reconcile(self, out: Outbound) -> Sent | NotSent | None:
        found = any(out.idempotency_key in one.idempotency_key for one in self.platform.got)
        return Sent(None) if found else NotSent(Code.NOT_FOUND, Permanence.TRANSIENT)


@SENDERS.caught_by("a_lookup_agrees_with_what_was_sent")
class FindsByText(RamChannel):
    async def reconcile(self, out: Outbound) -> Sent | NotSent | None:
        found = any(out.text == one.text for one in self.platform.got)
        return Sent(None) if found else NotSent(Code.NOT_FOUND, Permanence.TRANSIENT)


@SENDERS.caught_by("a_lookup_agrees_with_what_was_sent")
class FindsNothing(RamChannel):
    async def reconcile(self, out: Outbound) -> Sent | NotSent | None:
        return None


@SENDERS.caught_by("a_lookup_agrees_with_what_was_sent")
class LooksUpBySending(RamChannel):
    async def reconcile(self, out: Outbound) -> Sent | NotSent | None:
        found = await super().reconcile(out)
        self.platform.got.append(out)
        return found


@SENDERS.caught_by("a_lookup_agrees_with_what_was_sent", "a_repeat_is_answered_as_deduped")
class ForgetsAtARestart(RamChannel):
    def __init__(self, platform: Ram) -> None:
        super().__init__(platform)
        self.keys: set[str] = set()

    def has(self, out: Outbound) -> bool:
        return out.idempotency_key in self.keys

    async def send(self, out: Outbound) -> SendOutcome:
        outcome = await super().send(out)
        self.keys.add(out.idempotency_key)
        return outcome


@SENDERS.caught_by("a_repeat_is_answered_as_deduped")
class SendsRepeats(RamChannel):
    async def send(self, out: Outbound) -> SendOutcome:
        self.platform.got.append(out)
        return Sent(None)


@SENDERS.caught_by("a_repeat_is_answered_as_deduped")
class KeepsRepeatsQuiet(RamChannel):
    async def send(self, out: Outbound) -> SendOutcome:
        outcome = await super().send(out)
        return Sent(None) if isinstance(outcome, Sent) else outcome


@SENDERS.caught_by("a_repeat_is_answered_as_deduped")
class DedupesParts(RamChannel):
    def has(self, out: Outbound) -> bool:
        return any(out.idempotency_key in one.idempotency_key for one in self.platform.got)
