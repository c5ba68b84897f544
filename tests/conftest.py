"""Kits hold assertions: pytest explains theirs as it does a test's."""

from pathlib import Path

import pytest

pytest.register_assert_rewrite(
    *(f"tests.kits.{path.stem}" for path in Path(__file__).with_name("kits").glob("*.py"))
)
