"""Where the audit's Spark runs: in this process by default."""

from __future__ import annotations

import os
import sys
from typing import Final

from pyspark.sql import SparkSession

from .java import find_java_home

_SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    # A partition's value is a text: a channel `007` is not the number seven.
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.log.level": "ERROR",
}
_LOCAL: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "4",
}
_SMALL: Final = {
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
}
_LOCAL_MASTER: Final = "local[*]"


def open_session(master: str = _LOCAL_MASTER, *, small: bool = False) -> SparkSession:
    """Start Spark.

    Args:
        master: As Spark names it: `local[2]`, `spark://host:7077`.
        small: For little data, such as in tests: starts sooner, plans less.
    Returns:
        A session; `stop()` ends it.
    Raises:
        NoJava: there is none to run on.
    """
    os.environ["JAVA_HOME"] = str(find_java_home())
    # The workers would start whatever `python3` is on the path.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.Builder().master(master).appName("shardline audit")
    local = _LOCAL if master.startswith("local") else {}
    for name, value in (_SETTINGS | local | (_SMALL if small else {})).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
