"""Where the audit's Spark runs: in this process by default."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from importlib import import_module
from typing import Final, Protocol, cast

from pyspark.sql import SparkSession

from .java import find_java_home, java_options, quiet_home

_SETTINGS: Final = {
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    # A partition's value is a text: a channel `007` is not the number seven.
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    # An export has a sum of each page.
    "spark.hadoop.parquet.page.verify-checksum.enabled": "true",
    # What checks share is kept for seconds: choosing a packing for each column costs more than making the rows.
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
    # Java runs a longer method without ever compiling it, four times slower: beyond it Spark makes many short ones.
    "spark.sql.codegen.hugeMethodLimit": "8000",
}
_LOCAL: Final = {
    "spark.driver.memory": "2g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "4",
    # The checks of one audit need more than the hundred that are kept: what falls out is made and compiled again.
    "spark.sql.codegen.cache.maxEntries": "1000",
}
_SMALL: Final = {
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
    "spark.sql.adaptive.enabled": "false",
    # For little data making and compiling code takes longer than going without.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
_UI: Final = {"spark.ui.enabled": "true", "spark.ui.port": "0"}
_NO_UI: Final = {"spark.ui.enabled": "false"}
_LOCAL_MASTER: Final = "local[*]"

# The bridge to the JVM brings no types.
_Py4JError: Final = cast("type[Exception]", import_module("py4j.protocol").Py4JError)


class _Stream(Protocol):
    def close(self) -> None: ...


class _System(Protocol):
    err: _Stream


class _Java(Protocol):
    System: _System


def open_session(master: str = _LOCAL_MASTER, *, small: bool = False, ui: bool = False) -> SparkSession:
    """Start Spark.

    Args:
        master: As Spark names it: `local[2]`, `spark://host:7077`.
        small: For some hundred thousand rows at most, on one machine: starts sooner, plans less, compiles nothing.
        ui: Serve Spark's own page, at `sparkContext.uiWebUrl`; a free port is chosen.
    Returns:
        A session; `stop()` ends it.
    Raises:
        NoJava: there is none to run on.
    """
    os.environ["JAVA_HOME"] = str(quiet_home(find_java_home()))
    # The workers would start whatever `python3` is on the path.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.Builder().master(master).appName("shardline audit")
    java = java_options(os.environ, small=small)
    local: dict[str, str] = {}
    if is_local(master):
        # Else Spark looks for the name of the host, and warns of what it finds.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        local = _LOCAL
    shown = _UI if ui else _NO_UI
    settings = _SETTINGS | shown | local | (_SMALL if small else {}) | {"spark.driver.extraJavaOptions": java}
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def is_local(master: str) -> bool:
    """Whether Spark runs in this process and nowhere else."""
    return master.startswith("local")


def hush(spark: SparkSession) -> None:
    """Let Spark end in silence: its Java, through which its Python workers speak too, prints nothing any more.

    A worker that waits for its next task when Spark closes its connection would print where it was.

    Args:
        spark: Is stopped next, or what it still has under way is.
    """
    java = cast("_Java", spark.sparkContext._jvm)  # pyright: ignore[reportPrivateUsage]
    # A Java that has died says nothing either, and what it died of is on its way to the user.
    with suppress(_Py4JError, OSError):
        java.System.err.close()
