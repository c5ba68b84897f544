"""The core and the bots never load what the audit needs."""

import subprocess
import sys

CODE = """
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
print(*sorted({"pyspark", "pyarrow", "pandas", "numpy", "py4j"} & sys.modules.keys()))
"""


def test_neither_core_nor_command_loads_spark_or_arrow() -> None:
    modules = [
        "shardline",
        "shardline.testing",
        "shardline.runtime.command.app",
        "shardline.runtime.command.audit",
        "shardline.storage.audit",
        "shardline.storage.audit.checks",
    ]
    loaded = subprocess.run(
        [sys.executable, "-c", CODE, *modules], capture_output=True, text=True, check=True, timeout=50
    )

    assert loaded.stdout == "\n"
