from __future__ import annotations

import pytest

from shardline.runtime import defaults
from shardline.runtime.defaults import DEFAULTS, Default


@pytest.mark.parametrize("default", DEFAULTS, ids=lambda default: default.name)
def test_a_line_of_the_table_is_its_constant(default: Default) -> None:
    assert default.value == getattr(defaults, default.name.upper())
    assert default.unit
    assert default.meaning


def test_the_table_has_every_constant_once() -> None:
    constants = {name.lower() for name in vars(defaults) if name.isupper() and not name.startswith("_")}
    names = [default.name for default in DEFAULTS]

    assert sorted(names) == sorted(constants - {"defaults"})


def test_a_unit_in_the_name_is_the_unit_of_the_line() -> None:
    for default in DEFAULTS:
        assert (default.unit == "seconds") == default.name.endswith("_s")
        assert (default.unit == "bytes") == default.name.endswith("_bytes")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("shard_count", 16),
        ("max_inflight", 1_024),
        ("max_lane_backlog", 10_000),
        ("max_backlog", 1_000_000),
        ("grace_s", 30),
        ("send_timeout_s", 30),
        ("handler_timeout_s", 30),
        ("concurrency", 64),
        ("ack_deadline_s", 30),
        ("delivery_concurrency", 16),
        ("breaker_failures", 5),
        ("breaker_window_s", 30),
        ("breaker_open_s", 10),
        ("payload_bytes", 1_048_576),
        ("state_bytes", 262_144),
        ("dedupe_horizon_s", 2_592_000),
        ("retention_s", 2_592_000),
    ],
)
def test_the_promised_values(name: str, value: float) -> None:
    assert {default.name: default.value for default in DEFAULTS}[name] == value
