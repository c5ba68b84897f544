"""The examples run, say what their .out file says, and stay short."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "examples"
EXAMPLES = sorted(FOLDER.glob("*.py"))

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="the examples are not here")


def test_there_are_examples_and_no_strays() -> None:
    outputs = {path.stem for path in FOLDER.glob("*.out")}

    assert EXAMPLES
    assert outputs == {path.stem for path in EXAMPLES}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_prints_what_its_out_file_says(path: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=50, check=False)

    assert done.stderr == ""
    assert done.stdout == path.with_suffix(".out").read_text()
    assert done.returncode == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_short_and_starts_with_what_it_shows(path: Path) -> None:
    text = path.read_text()

    assert len(text.splitlines()) < 60
    assert ast.get_docstring(ast.parse(text))
