"""The benchmarks are no part of the wheel: their tests go where their folder goes."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

if not (Path(__file__).parents[2] / "benchmarks").is_dir():
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """A benchmark sets the logging of its process up; other tests look at log lines too."""
    yield
    structlog.reset_defaults()
