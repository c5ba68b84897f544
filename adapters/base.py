"""The surface a channel plug-in is written against."""

from ..runtime.channel import (
    NO_ADDRESS,
    UNKNOWN_TOPIC,
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
    "NO_ADDRESS",
    "UNKNOWN_TOPIC",
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
