"""What each part of a channel's contract needs."""

from __future__ import annotations

from pathlib import Path

import attrs

from ..base import ChannelCaps
from .edge import FakeEdge
from .platform import MakePlatform, Platform

Said = list[tuple[str, str]]
"""(address, text) of messages, in the order they were said."""


@attrs.frozen
class ChannelContract:
    """What the checks work with.

    Attributes:
        make: Makes a platform.
        caps: What its adapters are to declare.
    """

    make: MakePlatform
    caps: ChannelCaps


async def say(platform: Platform, *texts: str) -> Said:
    """Have each text said in each conversation, the conversations in turn."""
    said = [(address, text) for text in texts for address in platform.addresses]
    for address, text in said:
        await platform.say(address, text)
    return said


def check_all_there(edge: FakeEdge, said: Said) -> None:
    """Every message was accepted once, with its address and its text."""
    found = [(one.address, one.text) for one in edge.accepted]
    assert sorted(found) == sorted(said)


def subfolder(folder: Path, number: int) -> Path:
    """A folder of its own for one of several platforms."""
    below = folder / str(number)
    below.mkdir()
    return below


__all__ = ["ChannelContract", "Said", "check_all_there", "say", "subfolder"]
