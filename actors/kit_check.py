"""A conformance kit is a list of checks: each one promise, with a name, tried over an empty folder."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import cast

import attrs

__all__ = ["KitCheck", "checks_of", "explain_assertions"]

_MARK = "check_"


@attrs.frozen(eq=False)
class KitCheck:
    """One promise, tried by calling it with an empty folder, under trio.

    `str` of it is its name, so `@pytest.mark.parametrize("check", kit, ids=str)` names the tests.

    Attributes:
        name: Of small letters and underscores.
        promise: One sentence.
    """

    name: str
    promise: str
    _run: Callable[[Path], Awaitable[None]] = attrs.field(alias="run", repr=False)

    async def __call__(self, folder: Path) -> None:
        """Try it.

        Raises:
            AssertionError: the promise is broken; so is it by any other exception of what is tried.
            RuntimeError: Python runs with -O, which leaves assertions out.
        """
        if not __debug__:
            raise RuntimeError("the checks of a kit are assertions: run them without python -O")
        await self._run(folder)

    def __str__(self) -> str:
        return self.name


def checks_of(kit: object) -> list[KitCheck]:
    """The methods of a kit that are called `check_…`, in the order of its classes; each takes a folder."""
    checks: list[KitCheck] = []
    for owner in type(kit).__mro__:
        methods = cast("dict[str, object]", dict(vars(owner)))
        for name, method in methods.items():
            if name.startswith(_MARK):
                bound = cast("Callable[[Path], Awaitable[None]]", getattr(kit, name))
                plain = name.removeprefix(_MARK)
                promise = (method.__doc__ or plain.replace("_", " ")).partition("\n")[0]
                checks.append(KitCheck(plain, promise, bound))
    return checks


def explain_assertions(package: str, *modules: str) -> None:
    """Have pytest, if it is what runs, explain the assertions of these modules; they must not be imported yet."""
    if "pytest" in sys.modules:
        import pytest  # noqa: PLC0415 (nothing but a test run may need it)

        pytest.register_assert_rewrite(*(f"{package}.{module}" for module in modules))
