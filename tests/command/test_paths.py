import os
import re
from pathlib import Path

import pytest

from shardline.runtime.command.paths import check_paths
from shardline.runtime.command.problem import Problem
from shardline.runtime.exit_code import ExitCode
from tests.kits.chat_log import write_log


@pytest.fixture
def log(tmp_path: Path) -> Path:
    write_log(tmp_path / "log", conversations=1, messages=1)
    return tmp_path / "log"


def refused(words: str, *, log: Path | None, store: Path, sink: Path) -> None:
    """Expect one line with these words, exit code 2, and a folder that is as it was."""
    before = {path: path.lstat() for path in store.parent.iterdir()} if store.parent.is_dir() else {}
    with pytest.raises(Problem, match=re.escape(words)) as caught:
        check_paths(log=log, store=store, sink=sink)

    assert caught.value.code is ExitCode.USAGE
    assert "\n" not in caught.value.text
    if before:
        after = {path: path.lstat() for path in store.parent.iterdir()}
        assert {path: (found.st_mtime_ns, found.st_size) for path, found in after.items()} == {
            path: (found.st_mtime_ns, found.st_size) for path, found in before.items()
        }


def test_files_that_fit_are_fine(tmp_path: Path, log: Path) -> None:
    (tmp_path / "link").symlink_to(log)
    check_paths(log=log, store=tmp_path / "store", sink=tmp_path / "sink")
    check_paths(log=tmp_path / "link", store=tmp_path / "store", sink=tmp_path / "sink")
    check_paths(log=None, store=tmp_path / "store", sink=tmp_path / "sink")

    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "log"]


def test_the_input_must_be_there_and_regular(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    store, sink = tmp_path / "store", tmp_path / "sink"
    refused("does not exist", log=tmp_path / "none", store=store, sink=sink)
    refused("no regular file", log=tmp_path, store=store, sink=sink)
    refused("no regular file", log=tmp_path / "pipe", store=store, sink=sink)
    refused("no regular file", log=Path("/dev/null"), store=store, sink=sink)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_the_input_must_be_readable(tmp_path: Path, log: Path) -> None:
    log.chmod(0)
    refused("cannot be read", log=log, store=tmp_path / "store", sink=tmp_path / "sink")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_outputs_must_be_writable(tmp_path: Path, log: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir()
    closed.chmod(0o500)
    refused("cannot be written", log=log, store=closed / "store", sink=tmp_path / "sink")
    refused("cannot be written", log=log, store=tmp_path / "store", sink=closed / "sink")


def test_outputs_must_not_be_links_folders_or_devices(tmp_path: Path, log: Path) -> None:
    (tmp_path / "real").touch()
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "folder").mkdir()
    good = tmp_path / "good"
    for name, words in (
        ("link", "symbolic link"),
        ("dangling", "symbolic link"),
        ("folder", "no regular file"),
    ):
        refused(words, log=log, store=tmp_path / name, sink=good)
        refused(words, log=log, store=good, sink=tmp_path / name)
    refused("no regular file", log=log, store=good, sink=Path("/dev/null"))


def test_the_folder_of_an_output_must_be_there(tmp_path: Path, log: Path) -> None:
    refused("there is no folder", log=log, store=tmp_path / "none" / "store", sink=tmp_path / "sink")
    refused("there is no folder", log=log, store=tmp_path / "store", sink=tmp_path / "none" / "sink")
    refused("cannot be used", log=log, store=log / "store", sink=tmp_path / "sink")


def test_a_sink_that_is_the_input_is_refused_through_links_too(tmp_path: Path, log: Path) -> None:
    store = tmp_path / "store"
    store.touch()
    os.link(log, tmp_path / "hard")
    (tmp_path / "folder").symlink_to(tmp_path)
    (tmp_path / "soft").symlink_to(log)
    for sink in (log, tmp_path / "hard", tmp_path / "folder" / "log", tmp_path / "." / "log"):
        refused("is the input itself", log=log, store=store, sink=sink)
    refused("is the input itself", log=tmp_path / "soft", store=store, sink=log)
    refused("would overwrite the input", log=log, store=tmp_path / "hard", sink=tmp_path / "sink")


def test_a_sink_that_is_a_file_of_the_store_is_refused(tmp_path: Path, log: Path) -> None:
    store = tmp_path / "store"
    for name in ("store", "store-wal", "store-shm", "store.lock"):
        refused("is a file of the store", log=log, store=store, sink=tmp_path / name)
    store.touch()
    os.link(store, tmp_path / "hard")
    refused("is a file of the store", log=log, store=store, sink=tmp_path / "hard")


def test_a_sink_of_another_store_is_refused(tmp_path: Path, log: Path) -> None:
    """Its answers count from one again: they would stand behind higher ones."""
    (tmp_path / "sink").write_text("something")
    refused("another store", log=log, store=tmp_path / "store", sink=tmp_path / "sink")
    (tmp_path / "store").touch()
    check_paths(log=log, store=tmp_path / "store", sink=tmp_path / "sink")


def test_a_problem_is_one_safe_line(capsys: pytest.CaptureFixture[str]) -> None:
    Problem("--input \x1b[31mx\n is bad").show()

    assert capsys.readouterr().err == "shardline: --input ␛[31mx␊ is bad\n"
