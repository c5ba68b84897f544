"""Test a bot without a network and without sleeping."""

from .adapters.fake.channel import FakeChannel
from .adapters.fake.harness import Harness
from .adapters.fake.run import run

__all__ = ["FakeChannel", "Harness", "run"]
