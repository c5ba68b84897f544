"""Logs of every level, whatever an earlier test has set up."""

from collections.abc import Generator

import pytest
import structlog


@pytest.fixture
def all_levels() -> Generator[None]:
    """Let info through as well while the test runs."""
    before = structlog.get_config()
    structlog.reset_defaults()
    yield
    structlog.configure(**before)
