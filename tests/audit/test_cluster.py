"""Ten stores on a real cluster; a worker is killed in the middle, and every fault is still found once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest

pytest.importorskip("pyspark", reason="the extra `audit` is not installed")
pytest.importorskip("benchmarks", reason="the generator of stores is no part of the wheel")

from benchmarks.audited_store import FAULTS, Fault, make_store
from shardline.storage.audit.export import export_store
from shardline.storage.audit.report import read_rows
from tests.kits.spark_cluster import open_cluster, wait_for

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]

STORES = 10
DRIVER = """
import json, sys
from pathlib import Path
from shardline.storage.audit.checks.registry import ALL_CHECKS
from shardline.storage.audit.exported import Exported
from shardline.storage.audit.run import run_audit
from shardline.storage.audit.session import open_session

url, folder, out = sys.argv[1:]
spark = open_session(url)
spark.conf.set("spark.sql.shuffle.partitions", "4")
exported = Exported(spark, Path(folder))
say = lambda done, of: print("done", done, of, flush=True)
summary = run_audit(exported, Path(out), tuple(ALL_CHECKS.values()), measures=(), progress=say)
rows = spark.read.parquet(out + "/finding").select("store", "check", "ref_id").collect()
print(json.dumps({"errors": [one.error for one in summary.checks if one.error],
                  "scanned": {one.check: one.rows_scanned for one in summary.checks},
                  "found": [list(row) for row in rows]}))
spark.stop()
"""


def test_a_killed_worker_changes_no_count(tmp_path: Path) -> None:
    exports = tmp_path / "x"
    wanted: set[tuple[str, Fault]] = set()
    history = 0
    for number in range(STORES):
        path = tmp_path / f"{number}.db"
        # Two of them share a key and a conversation.
        is_faulty = number < 2
        made = make_store(
            path,
            1_500,
            faults=int(is_faulty),
            name=path.stem,
            is_second=number == 1,
            conversations=6,
        )
        manifest = export_store(path, exports)
        history += manifest.tables["history"].rows
        wanted |= {(manifest.store, fault) for fault in made.faults}

    with open_cluster(tmp_path, workers=2) as cluster:
        driver = subprocess.Popen(
            [sys.executable, "-c", DRIVER, cluster.url, str(exports), str(tmp_path / "out")],
            env=dict(cluster.environ),
            text=True,
            stdout=subprocess.PIPE,
        )
        try:
            wait_for(driver, "done 2 ")
            cluster.kill_worker(0)
            rest, _ = driver.communicate(timeout=600)
        finally:
            driver.kill()
            driver.wait(20)
        # The command itself, on what is left of the cluster; Spark's own settings are where Spark looks for them.
        settings = tmp_path / "conf"
        settings.mkdir()
        (settings / "spark-defaults.conf").write_text("spark.sql.shuffle.partitions 4\n")
        asked = ("duplicate_sends", "log_gaps")
        command = [sys.executable, "-m", "shardline", "audit", "run", str(exports), "--master", cluster.url]
        command += ["--out", str(tmp_path / "told"), "--checks", ",".join(asked)]
        told = subprocess.run(
            command,
            env={**cluster.environ, "SPARK_CONF_DIR": str(settings)},
            capture_output=True,
            text=True,
            check=False,
            timeout=400,
        )

    assert told.returncode == 1, told.stderr
    assert {
        (row["store"], (check, row["ref_id"]))
        for check in asked
        for row in read_rows(tmp_path / f"told/finding/check={check}")
    } == {(store, (check, ref)) for store, (check, ref) in wanted if check in asked}
    said = cast("dict[str, object]", json.loads(rest.splitlines()[-1]))
    found = [(store, (check, ref)) for store, check, ref in cast("list[tuple[str, str, str]]", said["found"])]
    assert driver.returncode == 0
    assert said["errors"] == []
    assert {check for _, (check, _) in wanted} == set(FAULTS)
    assert len(found) == len(wanted)
    assert set(found) == wanted
    assert cast("dict[str, int]", said["scanned"])["repeated_sends"] == history
