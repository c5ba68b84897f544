"""Finds a topology by the name people give it: `module:topology` or `path/to/file.py:topology`."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType, TracebackType
from typing import cast

from ..channel import Adapter
from ..exit_code import ExitCode
from ..topology import Topology
from .arguments import shown
from .problem import Problem

_DEFAULT = "topology"


def load_module(target: str, *, with_traceback: bool) -> tuple[ModuleType, str]:
    """Import the module of a target, with the current folder (or the file's) first on the path.

    Args:
        target: `module:name` or `file.py:name`; without a name it is `topology`.
        with_traceback: Show the whole traceback of what its import raises.
    Returns:
        The module, and the name within it.
    Raises:
        Problem: exit code 2, there is no such module or file; 1, its import raised something, or was interrupted.
    """
    place, colon, name = target.rpartition(":")
    if not colon:
        place, name = target, _DEFAULT
    if not place or not name:
        raise Problem(f"{shown(target)} names no topology: write module:topology or path/to/file.py:topology")
    is_file = place.endswith(".py") or os.sep in place
    try:
        return (_from_file(Path(place)) if is_file else _by_name(place)), name
    except Problem:
        raise
    except KeyboardInterrupt as error:
        raise Problem(
            f"ended by Ctrl-C while {place} was imported: nothing has begun", ExitCode.FAILURE
        ) from error
    except (Exception, SystemExit) as error:
        if with_traceback:
            traceback.print_exception(error)
        raise Problem(
            f"{place} cannot be imported: {_where(error)}{type(error).__name__}: {error}"
            f"{'' if with_traceback else ' (--traceback shows more)'}",
            ExitCode.FAILURE,
        ) from error


def topology_in(module: ModuleType, name: str) -> Topology:
    """Take the topology out of a module.

    Raises:
        Problem: exit code 2, there is no such name, or it is something else, or it handles nothing.
    """
    found: object = module
    for part in name.split("."):
        if not hasattr(found, part):
            known = sorted(word for word, value in vars(module).items() if isinstance(value, Topology))
            hint = f"; it has {', '.join(known)}" if known else "; it has no topology"
            raise Problem(f"{module.__name__} has no {name}{hint}")
        found = getattr(found, part)
    if not isinstance(found, Topology):
        raise Problem(f"{module.__name__}:{name} is no Topology but {type(found).__name__}")
    return found


def adapters_in(module: ModuleType) -> list[Adapter]:
    """Take the module's `adapters`: a sequence, or a callable without arguments that returns one.

    Returns:
        Empty if the module has none.
    Raises:
        Problem: exit code 2, it is something else; 1, the callable raised something.
    """
    found: object = getattr(module, "adapters", ())
    if callable(found):
        try:
            found = cast("Callable[[], object]", found)()
        except Exception as error:
            raise Problem(
                f"{module.__name__}.adapters() raised {_where(error)}{type(error).__name__}: {error}",
                ExitCode.FAILURE,
            ) from error
    if isinstance(found, str) or not isinstance(found, Iterable):
        raise Problem(f"{module.__name__}.adapters is no sequence of adapters but {type(found).__name__}")
    adapters: list[Adapter] = []
    for adapter in cast("Iterable[object]", found):
        if not isinstance(adapter, Adapter):
            raise Problem(
                f"{module.__name__}.adapters holds a {type(adapter).__name__}, which is no adapter: it needs name,"
                " prefix, caps, run and send"
            )
        adapters.append(adapter)
    return adapters


def _by_name(name: str) -> ModuleType:
    # As `python -m` does; the installed command has its own folder there.
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise Problem(f"there is no module {name} in this folder or on the path of Python") from error
        raise
    except (TypeError, ValueError) as error:
        if name.startswith("."):
            raise Problem(f"{name} is no full name of a module") from error
        raise


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise Problem(f"there is no file {path}")
    sys.path.insert(0, str(path.resolve().parent))
    spec = importlib.util.spec_from_file_location(path.stem, path.resolve())
    if spec is None or spec.loader is None:
        raise Problem(f"{path} is no Python file: its name ends in .py")
    module = importlib.util.module_from_spec(spec)
    # What the module defines is looked up there, by pickle, attrs and others.
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _where(error: BaseException) -> str:
    """`file:line: ` of the user's own line that is to blame."""
    if isinstance(error, SyntaxError) and error.filename is not None:
        return f"{_short(error.filename)}:{error.lineno}: "
    own = [(name, line) for name, line in _frames(error.__traceback__) if _is_users(name)]
    return f"{_short(own[-1][0])}:{own[-1][1]}: " if own else ""


def _frames(trace: TracebackType | None) -> list[tuple[str, int]]:
    return [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(trace)]


def _is_users(name: str) -> bool:
    # Ours refuses what a module says: the line that says it is the one to mend.
    ours = Path(__file__).resolve().parents[2]
    parts = (ours / name for name in ("actors", "runtime", "storage", "adapters"))
    path = Path(name).resolve()
    return not (name.startswith("<") or any(map(path.is_relative_to, parts)) or name == importlib.__file__)


def _short(name: str) -> str:
    path = Path(name)
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else name


__all__ = ["adapters_in", "load_module", "topology_in"]
