"""The whole contract of an adapter."""

from __future__ import annotations

from ...actors.kit_check import KitCheck, checks_of
from ...runtime.argument_checks import check_callable, check_kind
from ..base import ChannelCaps
from .platform import MakePlatform
from .reads import ReadsKit
from .sends import LookUpKit, RepeatsKit, SendsKit
from .shape import ShapeKit


def adapter_kit(make: MakePlatform, caps: ChannelCaps) -> list[KitCheck]:
    """Every promise of an adapter as a check of its own; those alone that its caps make it give.

    Args:
        make: Makes the platform in an empty folder, and ends it: the far side, as the test plays it.
        caps: What the adapter is to declare.
    Returns:
        Checks; each is called with an empty folder, under trio's own clock where the adapter uses threads.
    """
    check_callable(make, "make", "what makes the platform in a folder")
    check_kind(caps, ChannelCaps, "caps", "the ChannelCaps that the adapter is to declare")
    kits = [
        (ShapeKit, True),
        (ReadsKit, bool(caps.topics)),
        (SendsKit, True),
        (LookUpKit, caps.reconciles),
        (RepeatsKit, caps.deduplicates),
    ]
    return [check for kit, is_promised in kits if is_promised for check in checks_of(kit(make, caps))]


__all__ = ["adapter_kit"]
