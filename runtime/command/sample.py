"""The demo's own conversations, for a run without a log."""

from __future__ import annotations

import json

_KITCHEN = (
    ("Mira", "08:02", "who ate the last plum?"),
    ("Jonas", "08:03", "it was very ripe. it had no future"),
    ("Mira", "08:03", "that was breakfast, Jonas"),
    ("Jonas", "08:05", "there is half a pretzel behind the teapot"),
    ("Mira", "08:06", "forgiven. put the kettle on?"),
)
_NIGHT_TRAIN = (
    ("Priya", "22:47", "is this still the train to the sea?"),
    ("Conductor", "22:48", "it is, the sea has been told"),
    ("Priya", "22:50", "and the dining car?"),
    ("Conductor", "22:51", "soup until midnight, stories after that"),
    ("Priya", "22:52", "I will take one of each, please"),
)
_ALLOTMENT = (
    ("Otto", "17:30", "the pumpkin has moved again"),
    ("Lene", "17:31", "pumpkins do not move"),
    ("Otto", "17:31", "then who is sitting in my wheelbarrow"),
    ("Lene", "17:34", "ok. I see it. do not run"),
)
CONVERSATIONS = (("kitchen", _KITCHEN), ("night-train", _NIGHT_TRAIN), ("allotment", _ALLOTMENT))
"""Name and messages (sender, time, text) of each."""


def sample_log() -> bytes:
    """The conversations as a chat log."""
    lines = [
        json.dumps({"conversation": name, "seq": seq, "sender": sender, "at": at, "text": text})
        for name, messages in CONVERSATIONS
        for seq, (sender, at, text) in enumerate(messages)
    ]
    return ("\n".join(lines) + "\n").encode()


__all__ = ["CONVERSATIONS", "sample_log"]
