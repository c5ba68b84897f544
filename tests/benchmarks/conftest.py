"""The benchmarks are no part of the wheel: their tests go where their folder goes."""

from pathlib import Path

if not (Path(__file__).parents[2] / "benchmarks").is_dir():
    collect_ignore_glob = ["test_*.py"]
