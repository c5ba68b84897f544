"""What an adapter promises of its reading side."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import trio

from ...actors.errors import BusError, Code, error_code_of
from ..base import UNKNOWN_TOPIC, Adapter, Inbound
from .contract import ChannelContract, Said, check_all_there, say, subfolder
from .edge import FakeEdge
from .platform import Platform
from .reading import reading, settled, within

_RAW_BYTES = 256 * 1024


class ReadsKit(ChannelContract):
    """An adapter that reads: `caps.topics` is not empty."""

    async def check_messages_arrive_as_they_were_said(self, folder: Path) -> None:
        """Each message is accepted once, with its address, its text, an id, and nothing that breaks a rule."""
        async with self.make(folder) as platform:
            said = await say(platform, "a first one", "né, with a smile 😀", "and a third")
            edge = await self._read(platform, len(said))
            assert edge.refusals == []
            assert edge.bad == []
            check_all_there(edge, said)
            for inbound in edge.accepted:
                assert inbound.platform_message_id.strip()
                assert inbound.topic in {*self.caps.topics, UNKNOWN_TOPIC}
                assert len(inbound.raw or b"") <= _RAW_BYTES

    async def check_a_conversation_arrives_in_its_order(self, folder: Path) -> None:
        """Within a conversation messages are handed over one after the other, in the order they were said."""
        async with self.make(folder) as platform:
            said = await say(platform, *(f"message {number}" for number in range(12)))

            async def uneven(inbound: Inbound) -> None:
                # Commits of later messages would end before those of earlier ones, if both were under way.
                for _ in range(20 - len([one for one in edge.offered if one.address == inbound.address])):
                    await trio.lowlevel.checkpoint()

            edge = self._edge(platform.open(), uneven)
            await self._read(platform, len(said), edge=edge)
            assert edge.overlaps == []
            for address in platform.addresses:
                wanted = [text for where, text in said if where == address]
                assert [one.text for one in edge.accepted if one.address == address] == wanted

    async def check_what_is_said_while_it_runs_arrives(self, folder: Path) -> None:
        """A run that has not ended takes what comes later; one that has ended is started anew."""
        async with self.make(folder) as platform:
            adapter = platform.open()
            edge = self._edge(adapter)
            said = await say(platform, "before")
            async with reading(adapter, edge) as run:
                await run.wait_for(len(said))
                said += await say(platform, "meanwhile")
                await run.wait_for(len(said))
            await self._read(platform, len(said), edge=edge)
            check_all_there(edge, said)

    async def check_ids_are_never_reused(self, folder: Path) -> None:
        """The same words said again are another message: in one conversation, in two, after a restart."""
        async with self.make(folder) as platform:
            edge = self._edge(platform.open())
            said: Said = []
            for _ in range(2):
                said += await say(platform, "the same", "the same")
                await self._read(platform, len(said), edge=edge)
            check_all_there(edge, said)

    async def check_nothing_is_acknowledged_before_accept_returned(self, folder: Path) -> None:
        """What was offered, and not accepted when the process died, is offered again."""
        async with self.make(folder) as platform:
            said = await say(platform, "one", "two")
            edge = await self._read_and_die(platform, 0)
            assert edge.facts == {}
            await self._read(platform, len(said), edge=edge)
            check_all_there(edge, said)

    async def check_a_restart_loses_nothing(self, folder: Path) -> None:
        """Stopped after any message, it goes on; what was said meanwhile comes too."""
        for stop_at in range(5):
            async with self.make(subfolder(folder, stop_at)) as platform:
                said = await say(platform, "one", "two")
                edge = await self._read_and_die(platform, stop_at)
                said += await say(platform, "three")
                await self._read(platform, len(said), edge=edge)
                check_all_there(edge, said)

    async def check_a_message_that_comes_again_has_its_id(self, folder: Path) -> None:
        """A message that was stored, and was not acknowledged when the process died, is known by its id."""
        for stop_at in range(1, 4):
            async with self.make(subfolder(folder, stop_at)) as platform:
                said = await say(platform, "one", "two")
                edge = await self._read_and_die(platform, stop_at, has_committed=True)
                await self._read(platform, len(said), edge=edge)
                check_all_there(edge, said)

    async def check_a_refusal_of_the_store_loses_nothing(self, folder: Path) -> None:
        """What `accept` raises for want of room comes out of `run`, and the next run goes on."""
        if not self.caps.linear:
            # Such an edge answers the one who asked.
            return
        async with self.make(folder) as platform:
            said = await say(platform, "one", "two")
            adapter = platform.open()
            edge = self._edge(adapter)
            edge.fails_after, edge.error = 1, BusError(Code.STORE_FULL, "no room, says the kit")
            async with reading(adapter, edge) as run:
                with within("the end of a run whose accept was refused"):
                    await edge.wait_until(lambda: run.has_ended)
                assert error_code_of(run.error) is Code.STORE_FULL, f"run ended with {run.error!r}"
            edge.error = None
            await self._read(platform, len(said), edge=edge)
            check_all_there(edge, said)

    async def check_a_cancelled_accept_is_not_swallowed(self, folder: Path) -> None:
        """Stopped while a message waits for its commit, `run` ends at once, as cancelled."""
        async with self.make(folder) as platform:
            await say(platform, "one")
            adapter = platform.open()
            edge = self._edge(adapter, hold)
            async with reading(adapter, edge) as run:
                with within("the first message"):
                    await edge.wait_until(lambda: bool(edge.offered) or run.has_ended)
                run.check_error()
                assert edge.offered, "run ended and has offered nothing"
                await settled()
                await run.stop()

    async def check_two_channels_read_apart(self, folder: Path) -> None:
        """Two of its kind in one process: each reads what was said to it."""
        async with self.make(subfolder(folder, 1)) as first, self.make(subfolder(folder, 2)) as second:
            both = [(platform, platform.open()) for platform in (first, second)]
            edges = [self._edge(adapter) for _, adapter in both]
            said = [await say(first, "to the first"), await say(second, "to the second")]
            async with reading(both[0][1], edges[0]) as one, reading(both[1][1], edges[1]) as two:
                await one.wait_for(len(said[0]))
                await two.wait_for(len(said[1]))
                await settled()
            for edge, words in zip(edges, said, strict=True):
                check_all_there(edge, words)

    def _edge(self, adapter: Adapter, hook: Callable[[Inbound], Awaitable[None]] | None = None) -> FakeEdge:
        return FakeEdge(hook, channel=adapter.name, prefix=adapter.prefix, linear=self.caps.linear)

    async def _read(
        self,
        platform: Platform,
        count: int,
        *,
        edge: FakeEdge | None = None,
    ) -> FakeEdge:
        """Run a new adapter until so many messages are accepted, then stop it."""
        adapter = platform.open()
        edge = self._edge(adapter) if edge is None else edge
        async with reading(adapter, edge) as run:
            await run.wait_for(count)
        assert len(edge.accepted) >= count, f"run ended with {len(edge.accepted)} of {count} messages"
        return edge

    async def _read_and_die(self, platform: Platform, count: int, *, has_committed: bool = False) -> FakeEdge:
        """Run a new adapter until so many messages are accepted, then hold every accept, and end the run.

        Args:
            has_committed: Hold the last one when it is stored, not the next one when it is offered.
        """
        adapter = platform.open()
        edge = self._edge(adapter)

        async def hold_later(inbound: Inbound) -> None:
            if len(edge.accepted) >= count:
                await hold(inbound)

        if has_committed:
            edge.after_commit = hold_later
        edge.before_commit = hold_later
        async with reading(adapter, edge) as run:
            with within(f"accept of {count} messages"):
                await edge.wait_until(lambda: len(edge.accepted) >= count or run.has_ended)
            run.check_error()
            # So far that whatever it acknowledges too early, it has.
            await settled()
        edge.before_commit = edge.after_commit = None
        return edge


async def hold(_: Inbound) -> None:
    """An accept that does not return."""
    await trio.sleep_forever()
