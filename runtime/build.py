"""Wiring: builds the parts of one runtime over an open store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import attrs
import trio

from ..actors.errors import BusError, Code
from ..actors.keys import conversation_key
from ..actors.message import BusMessage
from ..actors.names import check_name
from ..actors.restart import Restart, Strategy
from ..actors.supervisor import ChildSpec, Supervisor
from .actor_start import never_starts
from .adapter_start import is_damage, is_final, is_hopeless, is_of_the_store
from .argument_checks import check_kind
from .breaker import Breaker
from .channel import Acts, Adapter, ChannelCaps, Reconciles
from .control.actor import ControlActor
from .control.hands import LiveHands
from .control.pulse import PulseActor
from .delivery import DeliveryActor
from .edge import EdgeActor
from .ephemeral import EphemeralActor
from .health_watch import HealthWatch
from .inbox import Inbox
from .receipt import Receipt
from .recovery import settle_last_run
from .relay import Relay
from .retention import Pruner, Retention
from .retry import RetryPolicy
from .shard import ShardActor
from .surroundings import RuntimeSurroundings
from .timer import TimerActor
from .topic_handler import TopicHandlerActor
from .topology import FrozenTopology
from .tracing import Tracing
from .turn_breaker import TurnBreaker

if TYPE_CHECKING:
    from .services import Services


@attrs.frozen(kw_only=True)
class Tree:
    """The actors of a runtime, ready to run. `root` starts them in order and stops them in reverse."""

    root: Supervisor
    inbox: Inbox
    relay: Relay
    health: HealthWatch
    edges: tuple[EdgeActor, ...]


def check_adapters(topology: FrozenTopology, adapters: Sequence[object], *, park_unhandled: bool) -> None:
    """Refuse adapters that cannot work with this topology, before anything is opened.

    Raises:
        BusError: NO_SUBSCRIBER, what an adapter produces has no handler; UNKNOWN_ADAPTER, not an adapter, or two of
            one name or prefix.
    """
    names: set[str] = set()
    prefixes: set[str] = set()
    for adapter in adapters:
        if not isinstance(adapter, Adapter):
            raise BusError(
                Code.UNKNOWN_ADAPTER,
                f"{type(adapter).__name__} is no adapter: it needs name, prefix, caps, run and send",
            )
        check_name(adapter.name, "adapter")
        conversation_key(adapter.prefix, "a")
        check_kind(adapter.caps, ChannelCaps, "caps", "ChannelCaps")
        if adapter.caps.reconciles and not isinstance(adapter, Reconciles):
            raise BusError(
                Code.UNKNOWN_ADAPTER,
                f"adapter {adapter.name} declares reconciles=True and has no method reconcile",
                adapter=adapter.name,
            )
        if adapter.name in names or adapter.prefix in prefixes:
            raise BusError(
                Code.UNKNOWN_ADAPTER,
                "two adapters share a name or a prefix",
                adapter=adapter.name,
                prefix=adapter.prefix,
            )
        names.add(adapter.name)
        prefixes.add(adapter.prefix)
        for topic in adapter.caps.topics:
            if not park_unhandled and topology.handler_of(topic, adapter.name) is None:
                raise BusError(
                    Code.NO_SUBSCRIBER,
                    f"nobody handles topic {topic} of channel {adapter.name}: declare it with `on`, "
                    f'or open with unhandled="park"; {topology.list_handlers()}',
                    topic=topic,
                    channel=adapter.name,
                )


def build_tree(
    services: Services,
    adapters: Sequence[Adapter],
    *,
    send_retry: RetryPolicy,
    send_breaker: Breaker | None,
    retention: Retention,
    tracing: Tracing | None,
    park_unhandled: bool,
    publish: Callable[[BusMessage], Awaitable[Receipt]],
) -> Tree:
    """Make the actors and the tree that supervises them; nothing runs yet.

    Args:
        publish: What control records that publish go through.
    """
    log = services.log
    surroundings = RuntimeSurroundings(services)
    relay, timers = Relay(services), TimerActor(services)
    services.wire(relay, timers)
    for topic, by_channel in services.topology.handlers.items():
        breakers = {
            channel: TurnBreaker(topic, channel, spec.breaker, services)
            for channel, spec in by_channel.items()
            if spec.breaker is not None
        }
        services.topics[topic] = TopicHandlerActor(
            topic, list(by_channel.values()), surroundings, breakers, tracing
        )
    for adapter in adapters:
        services.deliveries[adapter.name] = DeliveryActor(
            adapter,
            retry=send_retry,
            alarms=services.alarms,
            log=log,
            tracing=tracing,
            breaker=send_breaker,
            count=services.count,
        )
        services.prefixes[adapter.prefix] = adapter.name
        if isinstance(adapter, Acts):
            services.deliveries[adapter.name].ephemeral = EphemeralActor(
                adapter, channel=adapter.name, count=services.count, log=log
            )
    services.shards.extend(ShardActor(number, services) for number in range(services.store.info.shard_count))
    inbox = Inbox(services, park_unhandled=park_unhandled)
    edges = tuple(EdgeActor(adapter, inbox, services) for adapter in adapters)
    for edge in edges:
        services.deliveries[edge.adapter.name].on_stop = edge.stop

    crashed = partial(services.count, "crashes")
    edge_group = Supervisor(
        "edges",
        [
            ChildSpec(
                f"edge-{edge.adapter.name}",
                edge.run,
                restart=Restart.TRANSIENT,
                escalates=lambda error: is_damage(error) or is_final(error, edges),
                is_excused=is_of_the_store,
            )
            for edge in edges
        ],
        log=log,
        crashed=crashed,
    )
    upkeep = [ChildSpec("retention", Pruner(services, retention).run, escalates=is_damage)]
    health = HealthWatch(services, edges, edge_group.statistics)
    if services.store.caps.shared != "process":
        control = ControlActor(LiveHands(services, publish), log)
        pulse = PulseActor(services, edges, edge_group.statistics, health)
        upkeep += [
            ChildSpec(name, run, escalates=is_damage)
            for name, run in (("control", control.run), ("pulse", pulse.run))
        ]

    def group(name: str, children: list[ChildSpec]) -> ChildSpec:
        actors = Supervisor(name, children, log=log, crashed=crashed)
        return actors.as_child(escalates=lambda error: is_damage(error) or never_starts(actors, error))

    root = Supervisor(
        "root",
        [
            # A journal that gives up has failed three times at one commit: whatever runs on top must stop.
            ChildSpec("journal", services.store.run, escalates=True),
            ChildSpec("recovery", partial(_recover, services), restart=Restart.TEMPORARY, escalates=True),
            group("inbox", [ChildSpec("relay", relay.run, escalates=is_damage)]),
            group("alarms", [ChildSpec("alarms", services.alarms.run)]),
            group(
                "shards",
                [
                    ChildSpec(shard.name, shard.run, mailbox=shard.mailbox, escalates=is_damage)
                    for shard in services.shards
                ],
            ),
            group(
                "topics", [ChildSpec(f"topic-{topic}", actor.run) for topic, actor in services.topics.items()]
            ),
            group(
                "outbox",
                [ChildSpec(f"delivery-{name}", actor.run) for name, actor in services.deliveries.items()]
                + [
                    ChildSpec(f"ephemeral-{name}", actor.ephemeral.run)
                    for name, actor in services.deliveries.items()
                    if actor.ephemeral is not None
                ],
            ),
            group("timers", [ChildSpec("timer", timers.run, escalates=is_damage)]),
            edge_group.as_child(escalates=lambda error: is_damage(error) or is_hopeless(error, edges)),
            group("upkeep", upkeep),
        ],
        strategy=Strategy.REST_FOR_ONE,
        log=log,
        crashed=crashed,
        ending=services.begin_end,
    )
    return Tree(root=root, inbox=inbox, relay=relay, health=health, edges=edges)


async def _recover(services: Services, *, task_status: trio.TaskStatus[None]) -> None:
    await settle_last_run(services)
    task_status.started()
