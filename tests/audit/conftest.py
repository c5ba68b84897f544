"""One Spark for all of these tests; without the extra `audit` they are skipped."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Generator[SparkSession]:
    """A small local session."""
    pytest.importorskip("pyspark", reason="the extra `audit` is not installed")
    from shardline.storage.audit.session import open_session

    session = open_session("local[1]", small=True)
    yield session
    session.stop()
