"""Kits hold assertions: pytest explains theirs as it does a test's. Each test finds the logs as a library does."""

import signal
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
import structlog
from hypothesis import HealthCheck, settings

pytest.register_assert_rewrite(
    *(f"tests.kits.{path.stem}" for path in Path(__file__).with_name("kits").glob("*.py"))
)

# Whoever runs the tests in the background may have told its children to ignore a Ctrl-C or the end of the terminal;
# tests send both to theirs.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if sys.platform != "win32" and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda _number, _frame: None)

# How long an example takes says something about the machine, nothing about the promise. Every run of the tests draws
# the same examples, so that it fails because of a change and not by chance; `script/soak` draws others in each round.
TIMELESS = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("shardline", TIMELESS, derandomize=True)
settings.register_profile("chance", TIMELESS, derandomize=False)
settings.load_profile("shardline")

# Rich takes a second of a busy processor to draw each logged traceback with the values of its variables, and no test
# reads that drawing; the traceback itself is printed as ever.
structlog.dev.ConsoleRenderer.get_active().exception_formatter = structlog.dev.plain_traceback


LONG_S = 600
"""For a long test, which may share two slow cores with another one and with what both have started.

For a short one with Spark too: whichever comes first has to wait until Java is up.
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spark's tests first: they take longest, and of workers that share the tests one alone starts a Spark then."""
    items.sort(key=lambda item: item.get_closest_marker("spark") is None)
    for item in items:
        is_long = item.get_closest_marker("long") is not None or item.get_closest_marker("spark") is not None
        if is_long and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(LONG_S))


@pytest.fixture(autouse=True)
def library_logs() -> Generator[None]:
    """Whatever a test has set up for its own process goes with it: every level, printed."""
    yield
    structlog.reset_defaults()
