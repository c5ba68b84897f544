"""Kits hold assertions: pytest explains theirs as it does a test's. Each test finds the logs as a library does."""

import signal
import sys
from pathlib import Path

import pytest
import structlog
from hypothesis import settings

pytest.register_assert_rewrite(
    *(f"tests.kits.{path.stem}" for path in Path(__file__).with_name("kits").glob("*.py"))
)

# Whoever runs the tests in the background may have told its children to ignore a Ctrl-C or the end of the terminal;
# tests send both to theirs.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if sys.platform != "win32" and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda _number, _frame: None)

# How long an example takes says something about the machine, nothing about the promise.
settings.register_profile("shardline", deadline=None)
settings.load_profile("shardline")

# Rich takes a second of a busy processor to draw each logged traceback with the values of its variables, and no test
# reads that drawing; the traceback itself is printed as ever.
structlog.dev.ConsoleRenderer.get_active().exception_formatter = structlog.dev.plain_traceback


LONG_S = 300
"""For a long test, which may share two slow cores with another one and with what both have started."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spark's tests first: they take longest, and of workers that share the tests one alone starts a Spark then."""
    items.sort(key=lambda item: item.get_closest_marker("spark") is None)
    for item in items:
        if item.get_closest_marker("long") is not None and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(LONG_S))


@pytest.fixture(autouse=True)
def library_logs() -> None:
    """Whatever an earlier test has set up for its own process is gone: every level, printed."""
    structlog.reset_defaults()
