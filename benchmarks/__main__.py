"""Run one benchmark by name: `python -m benchmarks NAME …`; without a name all goals; `list` names them."""

import ast
import runpy
import sys
from pathlib import Path

HERE = Path(__file__).parent


def programs() -> dict[str, str]:
    """The modules of this folder that can be run: name -> first line of the docstring."""
    found: dict[str, str] = {}
    for path in sorted(HERE.glob("[!_]*.py")):
        source = path.read_text()
        if '\nif __name__ == "__main__":' in source:
            found[path.stem] = (ast.get_docstring(ast.parse(source)) or "").partition("\n")[0]
    return found


def main(arguments: list[str]) -> None:
    known = programs()
    if not arguments or arguments[0].startswith("-"):
        arguments = ["goals", *arguments]
    if arguments[0] == "list":
        for name, line in known.items():
            print(f"{name:12} {line}")
    elif arguments[0] in known:
        sys.argv = arguments
        runpy.run_module(f"benchmarks.{arguments[0]}", run_name="__main__", alter_sys=True)
    else:
        sys.exit(f"no benchmark {arguments[0]!r}; there are: {', '.join(known)}")


if __name__ == "__main__":
    main(sys.argv[1:])
