"""Field entry 12, the health words: a second consumer of a token makes one poller dead or noisy.

Right: polling goes on, and after a while the health says in plain words that another consumer uses the token; with the
first answer that works it is well again. What an adapter makes of the platform's 409 is its own test.
"""

from __future__ import annotations

import trio
from trio.testing import MockClock

from shardline import Runtime
from shardline.adapters.base import ChannelCaps, Edge, Inbound, Outbound, Sent
from shardline.runtime.health import HealthState
from shardline.storage.memory import open_memory
from tests.kits.bots import counting_bot

TEXT = "another consumer or a webhook uses this token"


class Poller:
    """Meets 409 until `free_s`; asks every 3 seconds, and says so from a minute on."""

    name, prefix, caps = "tg", "tg", ChannelCaps()

    def __init__(self, free_s: float) -> None:
        self.free_s = free_s
        self.polls = 0

    async def run(self, edge: Edge, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        began_s = trio.current_time()
        while (waited_s := trio.current_time() - began_s) < self.free_s:
            self.polls += 1
            if waited_s >= 60:
                edge.report("degraded", TEXT, action="Stop the other one.")
            await trio.sleep(3)
        await edge.accept(Inbound(platform_message_id="1", address="1", text="backlog"))
        await trio.sleep_forever()

    async def send(self, out: Outbound) -> Sent:
        return Sent(platform_message_id=None)


async def test_a_conflict_that_ends_is_handled_and_health_is_ok(autojump_clock: MockClock) -> None:
    async with Runtime.open(counting_bot(), store=open_memory(), adapters=[Poller(50)]) as runtime:
        await trio.sleep(55)

        assert runtime.health().state is HealthState.OK
        assert runtime.counters["handled"] == 1


async def test_a_conflict_that_stays_is_said_after_a_minute_and_gone_with_the_next_message(
    autojump_clock: MockClock,
) -> None:
    poller = Poller(600)
    async with Runtime.open(counting_bot(), store=open_memory(), adapters=[poller]) as runtime:
        await trio.sleep(59)
        assert runtime.health().state is HealthState.OK
        await trio.sleep(300)
        [reason] = runtime.health().reasons
        assert (reason.word, reason.about, reason.text) == ("channel_reports", "tg", TEXT)
        assert reason.state is HealthState.DEGRADED
        assert poller.polls <= 121
        await trio.sleep(300)
        assert runtime.health().state is HealthState.OK
        assert runtime.counters["handled"] == 1
