"""Public names of a package that are loaded when they are first asked for.

So that a part of the package, such as a command, starts with what it needs and no more. For type checkers the package
imports the same names, and defines no `__getattr__`: one that any name would satisfy hides every misspelling.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def lazy_names(package: str, places: Mapping[str, str]) -> Callable[[str], object]:
    """Make the package's `__getattr__`.

    Args:
        package: The package's name.
        places: Name -> module below the package.
    """

    def load(name: str) -> object:
        place = places.get(name)
        if place is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found: object = getattr(import_module(f".{place}", package), name)
        # Asked for once.
        setattr(sys.modules[package], name, found)
        return found

    return load


__all__ = ["lazy_names"]
