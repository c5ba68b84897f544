"""A real Spark cluster of this machine: a master and workers, each a process of its own on the loopback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import attrs

from shardline.storage.audit.java import find_java_home


@attrs.frozen
class Cluster:
    """Where it is, what its programs need, and the processes of its workers."""

    url: str
    environ: Mapping[str, str]
    workers: list[subprocess.Popen[str]]

    def kill_worker(self, number: int) -> None:
        """Kill a worker and the executors it has started."""
        os.killpg(self.workers[number].pid, signal.SIGKILL)
        self.workers[number].wait(20)


@contextmanager
def open_cluster(folder: Path, *, workers: int) -> Generator[Cluster]:
    """Start one, with a core a worker; it is gone when the block ends."""
    found = find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    home = Path(found.origin).parent
    log = folder / "log4j2.properties"
    log.write_text(
        "rootLogger.level=info\nrootLogger.appenderRef.out.ref=out\nappender.out.type=Console\nappender.out.name=out\n"
        "appender.out.layout.type=PatternLayout\nappender.out.layout.pattern=%m%n\n"
    )
    environ = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "JAVA_HOME": str(find_java_home()),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_NO_DAEMONIZE": "1",
        "SPARK_WORKER_DIR": str(folder / "work"),
        "SPARK_DAEMON_MEMORY": "512m",
    }
    daemons = environ | {"SPARK_DAEMON_JAVA_OPTS": f"-Dlog4j2.configurationFile={log.as_uri()}"}
    running: list[subprocess.Popen[str]] = []

    def start(name: str, *arguments: str) -> subprocess.Popen[str]:
        command = [str(home / "bin/spark-class"), f"org.apache.spark.deploy.{name}"]
        command += ["--host", "127.0.0.1", "--webui-port", "0", *arguments]
        process = subprocess.Popen(
            command,
            env=daemons,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        running.append(process)
        return process

    try:
        # It chooses its port itself: one that was found free before might be taken by then.
        master = start("master.Master", "--port", "0")
        url = wait_for(master, "Starting Spark master at ").split()[-1]
        wait_for(master, "I have been elected leader")
        for _ in range(workers):
            worker = start("worker.Worker", "--cores", "1", "--memory", "1500m", url)
            wait_for(worker, "Successfully registered with master")
        yield Cluster(url, environ, running[1:])
    finally:
        for process in reversed(running):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(20)
            assert process.stdout is not None
            process.stdout.close()


def wait_for(process: subprocess.Popen[str], word: str) -> str:
    """Read what a process says until it says this, and give that line; its end is an error."""
    assert process.stdout is not None
    said: list[str] = []
    for line in process.stdout:
        if word in line:
            return line
        said.append(line)
    raise AssertionError(f"it ended before it said {word!r}: {''.join(said)}")
