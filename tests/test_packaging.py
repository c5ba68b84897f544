"""The tree keeps its own rules: what is packaged, who imports whom, what no file may say.

On the wheel the sources are out of reach; what can only be asked of a checkout is skipped there.
"""

import ast
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import shardline

ROOT = Path(__file__).parents[1]
FOLDERS = ("actors", "runtime", "storage", "adapters")
CODE = (*FOLDERS, "src/shardline", "tests", "examples", "benchmarks")
FRAGMENT = re.compile(r"\d+\.(feature|fix|breaking|doc|misc)\.md")
MACHINE_PATH = re.compile(r"(?<![\w.~<>}])/(?:work|home|root)/")
# Written so that this file, which is among those searched, does not match.
REGISTRY_HOST = re.compile(
    r"\b(pypi\.org|pythonhosted\.org|npmjs\.org|crates\.io|deb\.debian\.org|proxy\.golang\.org)"
)
# What a folder may import beside itself; only `runtime/app.py` and the command join everything.
MAY_IMPORT = {
    "actors": (),
    "storage": ("shardline.actors",),
    "runtime": (
        "shardline.actors",
        "shardline.storage.condition",
        "shardline.storage.port",
        "shardline.storage.commands",
        # Names and finds what is past its time; part of the port as `commands` is.
        "shardline.storage.pruning",
        "shardline.storage.records",
    ),
    "adapters": ("shardline.actors", "shardline.runtime"),
}

# Put a whole runtime together, so they name concrete stores and adapters.
WIRING = (Path("runtime/app.py"), Path("runtime/control/client.py"), Path("adapters/fake/harness.py"))

in_checkout = pytest.mark.skipif(not (ROOT / "src").is_dir(), reason="the sources are not here")


def python_files(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def project() -> dict[str, dict[str, dict[str, list[str]]]]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def packages() -> list[str]:
    return project()["tool"]["setuptools"]["packages"]


def tracked_files() -> list[Path]:
    """Every file of the checkout that is tracked, or would be if it were added."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listing = subprocess.run(command, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no git checkout")
    files = [ROOT / name for name in os.fsdecode(listing).split("\0") if name]
    return [path for path in files if path.is_file() and not path.is_symlink()]


def texts() -> Iterator[tuple[str, str]]:
    for path in tracked_files():
        data = path.read_bytes()
        if b"\0" not in data[:8192]:
            yield str(path.relative_to(ROOT)), data.decode(errors="replace")


def imports_of(path: Path, package: str) -> Iterator[str]:
    """The modules that a file of `package` imports, as full names, also inside functions."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")
            base = parts[: len(parts) - node.level + 1] if node.level else []
            base += node.module.split(".") if node.module else []
            for alias in node.names:
                below = ROOT.joinpath(*base[1:], alias.name)
                is_module = below.is_dir() or below.with_suffix(".py").is_file()
                yield ".".join([*base, alias.name] if is_module else base)


def is_within(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


@in_checkout
def test_every_package_folder_is_packaged() -> None:
    source = ROOT / "src"
    found = {
        ".".join(Path(folder).relative_to(source).parts)
        for folder, _, files in os.walk(source, followlinks=True)
        if "__init__.py" in files
    }

    assert found == set(packages())


@in_checkout
def test_every_folder_with_code_is_type_checked() -> None:
    folders = {folder for folder in ("tests", "examples", "benchmarks") if python_files(folder)}
    modules = {f"src/shardline/{path.name}" for path in (ROOT / "src/shardline").glob("*.py")}
    links = {f"src/shardline/{folder}" for folder in FOLDERS}
    tools = project()["tool"]

    assert folders | {"src/shardline"} <= set(tools["mypy"]["files"])
    assert folders | links | modules <= set(tools["pyright"]["include"])


def test_only_the_one_top_level_name_is_loaded() -> None:
    for name in packages():
        importlib.import_module(name)

    assert sys.modules.keys().isdisjoint(FOLDERS)


@pytest.mark.parametrize("name", packages())
def test_all_lists_the_public_names(name: str) -> None:
    package = importlib.import_module(name)
    listed: list[str] = getattr(package, "__all__", [])
    # Some are loaded only when they are asked for.
    assert all(hasattr(package, word) for word in listed)
    public = {
        word
        for word, value in vars(package).items()
        if not word.startswith("_") and not isinstance(value, ModuleType)
    }

    assert len(listed) == len(set(listed))
    assert set(listed) == public


def test_the_front_page_of_names_is_short() -> None:
    assert len(getattr(shardline, "__all__", [])) <= 30


@in_checkout
def test_imports_point_one_way() -> None:
    wrong: list[str] = []
    for folder, others in MAY_IMPORT.items():
        for path in python_files(folder):
            place = path.relative_to(ROOT)
            if place in WIRING or place.is_relative_to("runtime/command"):
                continue
            allowed = (f"shardline.{folder}", *others)
            package = ".".join(("shardline", *place.parent.parts))
            ours = (name for name in imports_of(path, package) if is_within(name, "shardline"))
            wrong += [
                f"{place}: {name}" for name in ours if not any(is_within(name, part) for part in allowed)
            ]

    assert wrong == []


@in_checkout
def test_the_four_folders_import_relatively() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in python_files(*FOLDERS)
        for node in ast.walk(ast.parse(path.read_text()))
        if (
            isinstance(node, ast.ImportFrom) and node.level == 0 and is_within(node.module or "", "shardline")
        )
        or (isinstance(node, ast.Import) and any(is_within(alias.name, "shardline") for alias in node.names))
    ]

    assert wrong == []


@in_checkout
def test_no_python_file_is_over_400_lines() -> None:
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in python_files(*CODE)
    }

    assert {name: lines for name, lines in lengths.items() if lines > 400} == {}


@in_checkout
def test_no_text_names_a_machine_path_or_a_registry_host() -> None:
    found = [
        f"{name}: {match.group()}"
        for name, text in texts()
        for pattern in (MACHINE_PATH, REGISTRY_HOST)
        for match in pattern.finditer(text)
    ]

    assert found == []


@in_checkout
def test_change_fragments_are_named_after_issue_and_kind() -> None:
    names = [path.name for path in (ROOT / "docs/changes").iterdir()]

    assert names
    assert [name for name in names if not FRAGMENT.fullmatch(name)] == []


@in_checkout
def test_change_fragments_say_something() -> None:
    empty = [path.name for path in (ROOT / "docs/changes").iterdir() if not path.read_text().strip()]

    assert empty == []


def planted_tree(target: Path) -> set[str]:
    """Copy the tree with its links, put one type error into each linked folder; returns their file names."""
    for name in ("pyproject.toml", "README.md", "src", "tests", "examples", "benchmarks", *FOLDERS):
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, symlinks=True)
        elif source.is_file():
            shutil.copy(source, target / name)
    for folder in FOLDERS:
        (target / folder / f"planted_in_{folder}.py").write_text('wrong: int = "text"\n')
    return {f"planted_in_{folder}.py" for folder in FOLDERS}


@in_checkout
@pytest.mark.long
def test_pyright_sees_an_error_in_each_linked_folder(tmp_path: Path) -> None:
    pytest.importorskip("basedpyright", reason="a development tool")
    planted = planted_tree(tmp_path)
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "--project", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    found = json.loads(done.stdout)["generalDiagnostics"]

    assert planted <= {Path(item["file"]).name for item in found if item["severity"] == "error"}
    assert done.returncode == 1


@in_checkout
@pytest.mark.long
def test_mypy_sees_an_error_in_each_linked_folder(tmp_path: Path) -> None:
    pytest.importorskip("mypy", reason="a development tool")
    planted = planted_tree(tmp_path)
    command = [sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path / "cache"), "--no-error-summary"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)

    assert planted <= {Path(line.split(":")[0]).name for line in done.stdout.splitlines()}
    assert done.returncode == 1
