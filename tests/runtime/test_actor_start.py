"""An actor that cannot start: whoever opens the runtime hears of it in time, by name."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from shardline import BusError, Code, Runtime
from shardline.runtime.delivery import DeliveryActor
from shardline.runtime.relay import Relay
from shardline.runtime.retention import Pruner
from shardline.runtime.shard import ShardActor
from shardline.runtime.timer import TimerActor
from shardline.runtime.topic_handler import TopicHandlerActor
from shardline.storage.memory import open_memory
from shardline.testing import FakeChannel
from tests.kits.bots import counting_bot
from tests.kits.crashes import Injected, crash_in

ALWAYS = range(1, 1_000)


@pytest.mark.parametrize(
    ("owner", "method", "actor"),
    [
        (ShardActor, "on_start", "shard-0"),
        (Relay, "run", "relay"),
        (TopicHandlerActor, "run", "topic-chat.message"),
        (DeliveryActor, "run", "delivery-fake"),
        (TimerActor, "run", "timer"),
        (Pruner, "run", "retention"),
    ],
)
async def test_an_actor_that_crashes_at_every_start_ends_the_opening_in_seconds(
    autojump_clock: MockClock, owner: type, method: str, actor: str
) -> None:
    began_s = trio.current_time()
    with crash_in(owner, method, at=ALWAYS) as failed, pytest.raises(BusError) as ended:
        async with Runtime.open(counting_bot(), store=open_memory(), adapters=[FakeChannel("fake")]):
            raise AssertionError("not open")

    assert trio.current_time() - began_s < 4
    # The first try and five more: what starts behind it does not begin.
    assert len(failed) == 6
    assert ended.value.code is Code.ACTOR_FAILED
    assert ended.value.context == {"actor": actor, "error_type": "Injected"}
    assert f"actor {actor} cannot start: Injected" in str(ended.value)
    assert isinstance(ended.value.__cause__, Injected)
