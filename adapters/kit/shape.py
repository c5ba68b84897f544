"""What an adapter promises of itself."""

from __future__ import annotations

from pathlib import Path

from ...actors.keys import check_conversation_key, split_key
from ...actors.names import check_name, check_topic
from ..base import Adapter, ChannelCaps, Reconciles
from .contract import ChannelContract
from .edge import FakeEdge
from .reading import reading, settled, within


class ShapeKit(ChannelContract):
    """Any adapter."""

    async def check_name_prefix_and_caps_are_valid(self, folder: Path) -> None:
        """It has what an adapter has, each value keeps its rule, and the caps are those that were said."""
        async with self.make(folder) as platform:
            assert len(set(platform.addresses)) >= 2, "the kit needs two addresses"
            adapter: object = platform.open()
            assert isinstance(adapter, Adapter), "it lacks one of name, prefix, caps, run and send"
            check_name(adapter.name, "adapter")
            for address in platform.addresses:
                key = check_conversation_key(f"{adapter.prefix}:{address}")
                assert split_key(key) == (adapter.prefix, address)
            caps = adapter.caps
            assert isinstance(caps, ChannelCaps)
            assert caps == self.caps
            assert caps.max_text >= 1
            assert caps.concurrency >= 1
            assert caps.send_timeout_s > 0
            for topic in caps.topics:
                check_topic(topic)
            assert not caps.reconciles or isinstance(adapter, Reconciles), "caps.reconciles, and no reconcile"

    async def check_name_prefix_and_caps_never_change(self, folder: Path) -> None:
        """The values are the same before, while and after it runs, and for the next adapter."""
        async with self.make(folder) as platform:
            adapter = platform.open()
            before = _values(adapter)
            edge = FakeEdge(channel=adapter.name, prefix=adapter.prefix, linear=self.caps.linear)
            async with reading(adapter, edge):
                await settled()
                assert _values(adapter) == before
            assert _values(adapter) == before
            assert _values(platform.open()) == before

    async def check_run_says_when_it_is_ready(self, folder: Path) -> None:
        """`run` calls `task_status.started()`, once."""
        async with self.make(folder) as platform:
            adapter = platform.open()
            edge = FakeEdge(channel=adapter.name, prefix=adapter.prefix, linear=self.caps.linear)
            async with reading(adapter, edge) as run:
                with within("task_status.started()"):
                    await edge.wait_until(lambda: run.starts > 0 or run.has_ended)
                run.check_error()
                await settled()
            assert run.starts == 1, f"task_status.started() was called {run.starts} times"

    async def check_an_idle_run_stops_at_once(self, folder: Path) -> None:
        """Cancelled while it waits for messages, `run` ends at once, as cancelled."""
        async with self.make(folder) as platform:
            adapter = platform.open()
            edge = FakeEdge(channel=adapter.name, prefix=adapter.prefix, linear=self.caps.linear)
            async with reading(adapter, edge) as run:
                with within("task_status.started()"):
                    await edge.wait_until(lambda: run.starts > 0 or run.has_ended)
                await settled()
                run.check_error()
                await run.stop()


def _values(adapter: Adapter) -> tuple[str, str, ChannelCaps]:
    return adapter.name, adapter.prefix, adapter.caps
