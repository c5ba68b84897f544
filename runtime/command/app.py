"""The command `shardline`. Each subcommand's own modules are loaded only when it runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

import click

from ..exit_code import ExitCode
from .lazy import LazyGroup
from .problem import Problem

_FILE = click.Path(path_type=Path)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="shardline", prog_name="shardline")
def shardline() -> None:
    """A durable actor runtime for chat bots."""


@shardline.command()
@click.option(
    "--input",
    "log",
    type=_FILE,
    help="A chat log, JSON lines, plain or gzip; without it a small chat of its own.",
)
@click.option("--as-is", is_flag=True, help="Keep the order of the log; else its conversations take turns.")
@click.option("--store", type=_FILE, help="Where everything is kept; without it a temporary file.")
@click.option(
    "--sink", type=_FILE, help="Where the answers go, one JSON line each; without it a temporary file."
)
@click.option(
    "--durability",
    type=click.Choice(["full", "normal"]),
    default="full",
    show_default=True,
    help="full: accepted survives a power cut; normal: a kill.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the summary as one JSON object.")
def demo(
    log: Path | None,
    as_is: bool,
    store: Path | None,
    sink: Path | None,
    durability: Literal["full", "normal"],
    as_json: bool,
) -> None:
    """Answer a chat log and count.

    Every message is answered with its number and text. It ends by itself when everything is handled and sent. Stop
    it, or kill it, at any time: the same command goes on where it was.

    Exit code: 0 all done; 1 something is dead or uncertain, or the runtime failed; 2 a file cannot be used; 3 a signal
    cut work off, it goes on at the next start; 4 a signal came before the end.
    """
    from .demo import DemoOptions, main  # noqa: PLC0415

    main(DemoOptions(log=log, store=store, sink=sink, as_is=as_is, durability=durability, as_json=as_json))


def main() -> None:
    """Run the command with the process's arguments."""
    try:
        shardline(prog_name="shardline")
    except OSError as error:
        # The root's own words (--help, --version) find no room; what a subcommand meets is told by the group.
        Problem(str(error)).show()
        sys.exit(ExitCode.FAILURE)


__all__ = ["main", "shardline"]
