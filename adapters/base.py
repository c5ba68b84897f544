"""The surface a channel plug-in is written against."""

from ..runtime.channel import (
    Adapter,
    ChannelCaps,
    Chat,
    Edge,
    HasChats,
    Inbound,
    NotSent,
    Outbound,
    Rate,
    RateLimits,
    Reconciles,
    SendOutcome,
    Sent,
    Stored,
    Uncertain,
)

__all__ = [
    "Adapter",
    "ChannelCaps",
    "Chat",
    "Edge",
    "HasChats",
    "Inbound",
    "NotSent",
    "Outbound",
    "Rate",
    "RateLimits",
    "Reconciles",
    "SendOutcome",
    "Sent",
    "Stored",
    "Uncertain",
]
