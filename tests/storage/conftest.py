import pytest

pytest.register_assert_rewrite("tests.kits.stores", "tests.kits.store_rows", "tests.kits.store_writes_kit")
pytest.register_assert_rewrite(
    "tests.kits.store_life_kit", "tests.kits.store_sends_kit", "tests.kits.store_reads_kit"
)
