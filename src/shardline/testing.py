"""Test a bot without a network and without sleeping; prove a channel or a store of one's own."""

from .actors.kit_check import KitCheck
from .adapters.fake.channel import FakeChannel
from .adapters.fake.harness import Harness
from .adapters.fake.run import run
from .adapters.kit import FakeEdge, MakePlatform, Platform, adapter_kit
from .storage.kit import OpenStore, store_kit

__all__ = [
    "FakeChannel",
    "FakeEdge",
    "Harness",
    "KitCheck",
    "MakePlatform",
    "OpenStore",
    "Platform",
    "adapter_kit",
    "run",
    "store_kit",
]
