"""Spans around turns and sends: one each, with ids and codes, never with what somebody wrote."""

from __future__ import annotations

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from shardline import BusMessage, Context, Permanent, Runtime, Topology
from shardline.runtime.otel import OtelTracing
from shardline.storage.memory import open_memory
from shardline.testing import FakeChannel
from tests.kits.bots import until_quiet


async def test_a_message_that_is_answered_and_one_that_dies_leave_their_spans() -> None:
    topology, exporter, provider = Topology(), InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        if message.payload.text == "a private death":
            raise Permanent("x.no", "a private reason")
        ctx.reply("a private answer")

    channel = FakeChannel()
    async with Runtime.open(
        topology, store=open_memory(), adapters=[channel], tracing=OtelTracing(provider)
    ) as runtime:
        await channel.say("a-private-chat", "hi")
        await until_quiet(runtime)
        await channel.say("a-private-chat", "a private death")
        await until_quiet(runtime)
    spans = exporter.get_finished_spans()

    assert [span.name for span in spans] == ["turn chat.message", "send fake", "turn chat.message"]
    told = [dict(span.attributes or {}) for span in spans]
    assert told[0]["shardline.channel"] == "fake"
    assert told[1]["messaging.message.id"] == "out-1"
    assert [one.get("error.type") for one in told] == [None, None, "HANDLER_FAILED"]
    assert [span.status.is_ok for span in spans] == [True, True, False]
    assert "private" not in "".join(span.to_json() for span in spans)


async def test_a_tracing_of_ones_own_sees_what_ends_a_turn() -> None:
    seen: list[str] = []

    class Own:
        def turn(self, message: BusMessage, claim: int) -> Own:
            seen.append(f"turn {claim}")
            return self

        def send(self, outbound: object) -> Own:
            seen.append("send")
            return self

        def __enter__(self) -> None: ...

        def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
            seen.append("ended" if kind is None else kind.__name__)

    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        if message.payload.text == "die":
            raise Permanent("x.no")
        ctx.reply("re")

    channel = FakeChannel()
    async with Runtime.open(topology, store=open_memory(), adapters=[channel], tracing=Own()) as runtime:
        await channel.say("a", "hi")
        await until_quiet(runtime)
        await channel.say("a", "die")
        await until_quiet(runtime)

    assert seen == ["turn 1", "ended", "send", "ended", "turn 1", "Permanent"]
