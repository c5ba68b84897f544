"""Traces through OpenTelemetry. Needs the extra `tracing`; where spans go is set up by its SDK, as ever."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from opentelemetry import trace
from opentelemetry.trace import SpanKind, Status, StatusCode

from ..actors.errors import error_code_of

if TYPE_CHECKING:
    from ..actors.message import BusMessage
    from .channel import Outbound

_Values = dict[str, str | int]


class OtelTracing:
    """A span for each run of a handler, and for each call of a channel.

    Spans hold ids, topics and channels; never a text, a chat or a person. What a handler calls is inside its span.

    Args:
        provider: Of the tracer; None is the one that is set globally.
    """

    def __init__(self, provider: trace.TracerProvider | None = None) -> None:
        self._tracer = trace.get_tracer("shardline", tracer_provider=provider)

    def turn(self, message: BusMessage, claim: int) -> AbstractContextManager[object]:
        """See `Tracing.turn`."""
        values: _Values = {
            "messaging.system": "shardline",
            "messaging.destination.name": message.topic,
            "messaging.message.id": message.id,
            "messaging.message.conversation_id": message.correlation_id,
            "shardline.claim": claim,
        }
        if message.channel is not None:
            values["shardline.channel"] = message.channel
        return self._span(f"turn {message.topic}", SpanKind.CONSUMER, values)

    def send(self, outbound: Outbound) -> AbstractContextManager[object]:
        """See `Tracing.send`."""
        values: _Values = {
            "messaging.system": "shardline",
            "messaging.destination.name": outbound.channel,
            "messaging.message.id": f"out-{outbound.id}",
            "shardline.claim": outbound.claim,
        }
        return self._span(f"send {outbound.channel}", SpanKind.PRODUCER, values)

    @contextmanager
    def _span(self, name: str, kind: SpanKind, values: _Values) -> Generator[None]:
        # What an exception says may be what somebody wrote: its type and code are told, not its text.
        with self._tracer.start_as_current_span(
            name, kind=kind, attributes=values, record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                yield
            except BaseException as error:
                span.set_attribute("error.type", str(error_code_of(error) or type(error).__name__))
                span.set_status(Status(StatusCode.ERROR))
                raise


__all__ = ["OtelTracing"]
