"""Adapters that are wrong in what they say of themselves, how they run, or what they read."""

from __future__ import annotations

from typing import ClassVar

import attrs
import trio

from shardline.actors.errors import BusError
from shardline.actors.identifiers import new_uuid7
from shardline.adapters.base import (
    ChannelCaps,
    Edge,
    Inbound,
)
from tests.kits.ram_channel import CAPS, Ram, RamChannel, Wrong

READERS = Wrong()


# What it says of itself.


@READERS.caught_by("name_prefix_and_caps_are_valid")
class BadName(RamChannel):
    @property
    def name(self) -> str:
        return "Ram Channel"


@READERS.caught_by("name_prefix_and_caps_are_valid")
class BadPrefix(RamChannel):
    @property
    def prefix(self) -> str:
        return "ram:chat"


@READERS.caught_by("name_prefix_and_caps_are_valid")
class OtherCaps(RamChannel):
    @property
    def caps(self) -> ChannelCaps:
        return attrs.evolve(CAPS, deduplicates=False)


@READERS.caught_by("name_prefix_and_caps_never_change")
class PrefixOfTheRun(RamChannel):
    is_running = False

    @property
    def prefix(self) -> str:
        return "ram2" if self.is_running else "ram"

    async def read(self, edge: Edge) -> None:
        self.is_running = True
        await super().read(edge)


@READERS.caught_by("name_prefix_and_caps_never_change")
class NameOfTheProcess(RamChannel):
    @property
    def name(self) -> str:
        return f"ram{self.platform.opened}"


# How it runs.


@READERS.caught_by("run_says_when_it_is_ready")
class NeverReady(RamChannel):
    async def run(self, edge: Edge, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        await self.read(edge)


@READERS.caught_by("run_says_when_it_is_ready")
class EndsBeforeItIsReady(RamChannel):
    async def run(self, edge: Edge, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        await trio.lowlevel.checkpoint()


@READERS.caught_by("run_says_when_it_is_ready")
class ReadyTwice(RamChannel):
    async def run(self, edge: Edge, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        task_status.started()
        await self.read(edge)


@READERS.caught_by("an_idle_run_stops_at_once", "a_cancelled_accept_is_not_swallowed")
class ReturnsWhenCancelled(RamChannel):
    async def read(self, edge: Edge) -> None:
        try:
            await super().read(edge)
        except trio.Cancelled:
            return


@READERS.caught_by("an_idle_run_stops_at_once", "a_cancelled_accept_is_not_swallowed")
class SaysGoodbyeAtLength(RamChannel):
    async def read(self, edge: Edge) -> None:
        try:
            await super().read(edge)
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(60)


@READERS.caught_by("an_idle_run_stops_at_once", "a_cancelled_accept_is_not_swallowed")
class FailsWhenCancelled(RamChannel):
    async def read(self, edge: Edge) -> None:
        try:
            await super().read(edge)
        except trio.Cancelled as error:
            raise ConnectionError("closed") from error


@READERS.caught_by("a_cancelled_accept_is_not_swallowed")
class OffersNothing(RamChannel):
    async def read(self, edge: Edge) -> None:
        await trio.lowlevel.checkpoint()


# What it reads.


@READERS.caught_by("messages_arrive_as_they_were_said")
class KnowsAsciiAlone(RamChannel):
    def inbound(self, number: int) -> Inbound:
        inbound = super().inbound(number)
        return attrs.evolve(inbound, text=inbound.text.encode("ascii", "replace").decode())


@READERS.caught_by("messages_arrive_as_they_were_said")
class HasNoIds(RamChannel):
    def inbound(self, number: int) -> Inbound:
        return attrs.evolve(super().inbound(number), platform_message_id="")


@READERS.caught_by("messages_arrive_as_they_were_said")
class AddressesWithSpaces(RamChannel):
    def inbound(self, number: int) -> Inbound:
        inbound = super().inbound(number)
        return attrs.evolve(inbound, address=f"{inbound.address} of ram")


@READERS.caught_by("messages_arrive_as_they_were_said")
class OneConversationForAll(RamChannel):
    def inbound(self, number: int) -> Inbound:
        return attrs.evolve(super().inbound(number), address="all")


@READERS.caught_by("messages_arrive_as_they_were_said")
class AnotherTopic(RamChannel):
    def inbound(self, number: int) -> Inbound:
        return attrs.evolve(super().inbound(number), topic="chat.other")


@READERS.caught_by("a_conversation_arrives_in_its_order")
class AcceptsAllAtOnce(RamChannel):
    async def read(self, edge: Edge) -> None:
        platform = self.platform
        while True:
            async with trio.open_nursery() as nursery:
                for number in range(platform.acknowledged, len(platform.log)):
                    nursery.start_soon(edge.accept, self.inbound(number))
            platform.acknowledged = len(platform.log)
            await platform.news.park()


@READERS.caught_by("a_conversation_arrives_in_its_order")
class NewestFirst(RamChannel):
    async def read(self, edge: Edge) -> None:
        platform = self.platform
        while True:
            for number in reversed(range(platform.acknowledged, len(platform.log))):
                await edge.accept(self.inbound(number))
            platform.acknowledged = len(platform.log)
            await platform.news.park()


@READERS.caught_by("what_is_said_while_it_runs_arrives")
class ReadsWhatIsThereAndWaits(RamChannel):
    async def read(self, edge: Edge) -> None:
        for number in range(self.platform.acknowledged, len(self.platform.log)):
            await edge.accept(self.inbound(number))
        await trio.sleep_forever()


@READERS.caught_by("ids_are_never_reused")
class IdsByContent(RamChannel):
    def inbound(self, number: int) -> Inbound:
        inbound = super().inbound(number)
        return attrs.evolve(inbound, platform_message_id=f"{inbound.address}:{inbound.text}")


@READERS.caught_by("ids_are_never_reused")
class IdsByConversation(RamChannel):
    def inbound(self, number: int) -> Inbound:
        return attrs.evolve(super().inbound(number), platform_message_id=str(number // 2))


@READERS.caught_by("nothing_is_acknowledged_before_accept_returned", "a_restart_loses_nothing")
class AcknowledgesFirst(RamChannel):
    async def read(self, edge: Edge) -> None:
        platform = self.platform
        while True:
            while platform.acknowledged < len(platform.log):
                platform.acknowledged += 1
                await edge.accept(self.inbound(platform.acknowledged - 1))
            await platform.news.park()


@READERS.caught_by("a_restart_loses_nothing")
class BeginsWithWhatIsNew(RamChannel):
    async def read(self, edge: Edge) -> None:
        if edge.fact("began") is not None:
            self.platform.acknowledged = len(self.platform.log)
        while True:
            while self.platform.acknowledged < len(self.platform.log):
                await edge.accept(self.inbound(self.platform.acknowledged), facts={"began": "yes"})
                self.platform.acknowledged += 1
            await self.platform.news.park()


@READERS.caught_by("a_message_that_comes_again_has_its_id")
class NewIdsForEachOffer(RamChannel):
    def inbound(self, number: int) -> Inbound:
        return attrs.evolve(super().inbound(number), platform_message_id=new_uuid7())


@READERS.caught_by("a_refusal_of_the_store_loses_nothing")
class IgnoresRefusals(RamChannel):
    async def read(self, edge: Edge) -> None:
        platform = self.platform
        while True:
            while platform.acknowledged < len(platform.log):
                try:
                    await edge.accept(self.inbound(platform.acknowledged))
                except BusError:
                    edge.refused("the bus did not take it", where=str(platform.acknowledged))
                platform.acknowledged += 1
            await platform.news.park()


@READERS.caught_by("a_refusal_of_the_store_loses_nothing")
class EndsAtARefusal(RamChannel):
    async def read(self, edge: Edge) -> None:
        try:
            await super().read(edge)
        except BusError:
            return


@READERS.caught_by("two_channels_read_apart")
class OneLogForAll(RamChannel):
    shared: ClassVar[list[tuple[str, str]]] = []

    def __init__(self, platform: Ram) -> None:
        super().__init__(platform)
        platform.log = self.shared
