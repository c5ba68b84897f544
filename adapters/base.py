"""The surface a channel plug-in is written against."""

from ..runtime.channel import (
    Adapter,
    ChannelCaps,
    Edge,
    Inbound,
    NotSent,
    Outbound,
    Reconciles,
    SendOutcome,
    Sent,
    Stored,
    Uncertain,
)

__all__ = [
    "Adapter",
    "ChannelCaps",
    "Edge",
    "Inbound",
    "NotSent",
    "Outbound",
    "Reconciles",
    "SendOutcome",
    "Sent",
    "Stored",
    "Uncertain",
]
