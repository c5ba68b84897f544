"""`shardline audit` in a process of its own."""

import errno
import subprocess
import sys
from http.client import HTTPConnection
from pathlib import Path

import pytest

from shardline.actors.errors import BusError, Code
from tests.kits.audited import make_chats, spoil_chains
from tests.kits.operated import operate


@pytest.mark.long
@pytest.mark.spark
def test_all_in_one_finds_and_tells(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="the extra `audit` is not installed")
    store, out = tmp_path / "a.db", tmp_path / "out"
    make_chats(store, chats=12)
    ends: list[int] = []
    said: list[str] = []
    shown: list[str] = []
    for spoil in (False, True):
        if spoil:
            spoil_chains(store)
        command = [
            sys.executable,
            "-m",
            "shardline",
            "audit",
            str(store),
            "--out",
            str(out),
            "--master",
            "local[1]",
        ]
        ended = subprocess.run(
            [*command, "--checks", "hash_chain"], capture_output=True, text=True, check=False, timeout=290
        )
        ends.append(ended.returncode)
        said.append(ended.stderr)
        shown.append(ended.stdout)

    assert ends == [0, 1], said
    assert "hash_chain: " not in shown[0]
    assert "\nhash_chain: 2\n" in shown[1], "the findings are on the terminal too"
    assert shown[1].count("why=") == 2, shown[1]
    page = (out / "report.html").read_text()
    assert "hash_chain: 2" in page
    assert "<script" not in page
    assert "http" not in page.lower().replace("http-equiv", "")


def test_a_store_that_is_not_there_is_exit_2(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="the extra `audit` is not installed")
    ended = operate("audit", "export", tmp_path / "none.db", "--to", tmp_path / "x")

    assert ended.exit_code == 2
    assert "does not exist" in ended.stderr
    assert not (tmp_path / "x").exists()


def test_two_stores_are_exported_by_one_command(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="the extra `audit` is not installed")
    from shardline.storage.audit.manifest import read_manifests

    stores = [tmp_path / "a.db", tmp_path / "b.db"]
    for chats, store in enumerate(stores, 1):
        make_chats(store, chats=chats)
    ended = operate("audit", "export", *stores, "--to", tmp_path / "x")

    assert ended.exit_code == 0, ended.stderr
    assert all(f"{store}: " in ended.stderr for store in stores)
    exports = read_manifests(tmp_path / "x")
    assert sorted(one.tables["inbox"].rows for one in exports) == [2, 4]
    assert len({one.store for one in exports}) == 2
    assert {one.number for one in exports} == {1}


def test_a_folder_without_exports_is_exit_2(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="the extra `audit` is not installed")
    ended = operate("audit", "run", tmp_path, "--out", tmp_path / "out")

    assert ended.exit_code == 2
    assert "holds no export" in ended.stderr


def test_an_unknown_check_is_exit_2(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="the extra `audit` is not installed")
    ended = operate("audit", "run", tmp_path, "--out", tmp_path / "out", "--checks", "none")

    assert ended.exit_code == 2
    assert "there is no check 'none'" in ended.stderr


@pytest.mark.parametrize("wrong", [("--checks", "none"), ("--since", "soon")])
def test_what_is_asked_for_wrongly_is_told_before_the_export(tmp_path: Path, wrong: tuple[str, str]) -> None:
    pytest.importorskip("pyspark", reason="the extra `audit` is not installed")
    make_chats(tmp_path / "a.db", chats=1)
    ended = operate("audit", tmp_path / "a.db", *wrong)

    assert ended.exit_code == 2
    assert wrong[1] in ended.stderr
    assert " rows, export" not in ended.stderr


def test_an_unfinished_run_has_no_report(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="the extra `audit` is not installed")
    ended = operate("audit", "report", tmp_path)

    assert ended.exit_code == 2
    assert "holds no finished run" in ended.stderr


def test_chains_of_a_folder_without_exports_are_exit_2(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="the extra `audit` is not installed")
    ended = operate("audit", "verify-chain", tmp_path)

    assert ended.exit_code == 2
    assert "holds no export" in ended.stderr


def test_a_watch_of_a_store_that_is_not_there_is_exit_2(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="the extra `audit` is not installed")
    ended = operate("audit", "watch", tmp_path / "none.db", "--out", tmp_path / "out")

    assert ended.exit_code == 2
    assert "does not exist" in ended.stderr
    assert not (tmp_path / "out").exists()


def test_a_copy_is_made_once(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="the extra `audit` is not installed")
    store, copy = tmp_path / "a.db", tmp_path / "copy.db"
    make_chats(store, chats=1)
    first = operate("audit", "copy", store, "--to", copy)
    again = operate("audit", "copy", store, "--to", copy)

    assert first.exit_code == 0, first.stderr
    assert again.exit_code == 2
    assert "is there already" in again.stderr
    assert copy.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("rows", "master", "small"),
    [(53, "local[2]", True), (52, "local[2]", False), (53, "spark://h:7077", False)],
)
def test_little_data_gets_a_spark_for_little_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int, master: str, small: bool
) -> None:
    """It plans little and compiles nothing; a cluster is as it is."""
    pytest.importorskip("pyspark", reason="the extra `audit` is not installed")
    from shardline.runtime.command import audit_spark
    from shardline.storage.audit import session
    from shardline.storage.audit.export import export_store

    asked: list[tuple[str, bool]] = []

    def open_session(master: str, *, small: bool, ui: bool) -> None:
        assert not ui, "nobody asked for it"
        asked.append((master, small))
        raise NotADirectoryError("far enough")

    monkeypatch.setattr(audit_spark, "_FEW_ROWS", rows)
    monkeypatch.setattr(session, "open_session", open_session)
    store, exports = tmp_path / "a.db", tmp_path / "x"
    make_chats(store, chats=3)
    manifest = export_store(store, exports)

    with pytest.raises(NotADirectoryError), audit_spark.reading((exports,), master):
        pass

    assert sum(part.rows for part in manifest.tables.values()) == 53
    assert asked == [(master, small)]


@pytest.mark.long
@pytest.mark.spark
def test_sparks_own_page_is_served_where_it_is_asked_for(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="the extra `audit` is not installed")
    store, told = tmp_path / "a.db", ""
    make_chats(store, chats=1)
    command = [sys.executable, "-m", "shardline", "audit", str(store), "--master", "local[1]", "--ui"]
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        assert running.stderr is not None
        for line in running.stderr:
            told += line
            if "Spark's page: " in line:
                break
        url = told.split("Spark's page: ")[-1].strip()
        # The checks take seconds from here on.
        asked = HTTPConnection(url.removeprefix("http://"), timeout=60)
        asked.request("GET", "/jobs/")
        page = asked.getresponse().read().decode()
        asked.close()
        rest = running.communicate(timeout=250)[1]
    finally:
        running.kill()
        running.wait(20)

    assert url.startswith("http://127.0.0.1:"), told
    assert "shardline audit" in page
    assert running.returncode == 0, rest


@pytest.mark.parametrize(
    ("fail_on", "of_warning", "of_error", "nothing"),
    [
        ((), 1, 1, 0),
        (("--fail-on", "warning"), 1, 1, 0),
        (("--fail-on", "error"), 0, 1, 0),
        (("--fail-on", "never"), 0, 0, 0),
    ],
)
def test_what_was_found_is_the_exit_code(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fail_on: tuple[str, ...],
    of_warning: int,
    of_error: int,
    nothing: int,
) -> None:
    pytest.importorskip("pyspark", reason="the extra `audit` is not installed")
    from shardline.runtime.command import audit
    from shardline.storage.audit.checks.base import Severity
    from shardline.storage.audit.summary import Outcome, Status, Summary

    def end_of(severity: Severity, findings: int, status: Status = "ran") -> int:
        outcome = Outcome(check="c", severity=severity, status=status, findings=findings)
        summary = Summary(
            run_id="r", taken_at_us=1, since_us=None, stores=(), rows={}, checks=[outcome], measures_failed={}
        )

        def run(*_: object) -> Summary:
            return summary

        monkeypatch.setattr(audit, "_run", run)
        return operate("audit", "run", tmp_path, "--out", tmp_path / "out", *fail_on).exit_code

    assert end_of(Severity.WARNING, 1) == of_warning
    assert end_of(Severity.ERROR, 1) == of_error
    assert end_of(Severity.ERROR, 0) == nothing
    # What could not be run is no clean result, whatever was asked for.
    assert end_of(Severity.WARNING, 0, "failed") == 2


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ZeroDivisionError("nobody thought of this"), "the audit could not be done"),
        (BusError(Code.STORE_IO, "cannot be read"), "cannot be read"),
        (OSError(28, "No space left"), "No space left"),
        (KeyboardInterrupt(), "ended by a signal"),
    ],
)
def test_what_keeps_an_audit_from_its_end_is_exit_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, line: str
) -> None:
    """1 would say that it found something."""
    pytest.importorskip("pyspark", reason="the extra `audit` is not installed")

    def break_off(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("shardline.storage.audit.report.write_report", break_off)
    monkeypatch.setattr("shardline.storage.audit.snapshot.copy_store", break_off)
    make_chats(tmp_path / "a.db", chats=1)
    commands = (("report", tmp_path), ("copy", tmp_path / "a.db", "--to", tmp_path / "b.db"))
    for ended in (operate("audit", *command) for command in commands):
        assert ended.exit_code == 2
        assert line in ended.stderr.splitlines()[-1]
        assert ("Traceback" in ended.stderr) == isinstance(error, ZeroDivisionError)


def test_what_a_stopped_report_is_of_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark", reason="the extra `audit` is not installed")

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("shardline.storage.audit.report.write_report", stop)
    ended = operate("audit", "report", tmp_path)

    assert (ended.exit_code, ended.stderr) == (2, "shardline: ended by a signal\n")


def test_a_reader_that_has_gone_away_is_no_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark", reason="the extra `audit` is not installed")

    def write(*_: object, **__: object) -> None:
        """Whatever is asked for is done."""

    def write_to_nobody(*_: object, **__: object) -> None:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr("shardline.storage.audit.report.write_report", write)
    monkeypatch.setattr("shardline.runtime.command.audit.click.echo", write_to_nobody)
    ended = operate("audit", "report", tmp_path)

    assert (ended.exit_code, ended.stderr) == (2, "")
