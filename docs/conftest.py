"""A page may set its logging up; the next one and the tests start from structlog's defaults again."""

from collections.abc import Generator

import pytest
import structlog


@pytest.fixture(autouse=True)
def structlog_defaults() -> Generator[None]:
    """Undo what a page configured."""
    yield
    structlog.reset_defaults()
