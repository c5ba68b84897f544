"""What the demo shows to people: the bar, the chat, the table. rich is loaded only where something is shown."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

import attrs
import click

from ...adapters.transcript import BadLine, SinkLine, Tally
from .safe_text import safe_text
from .sample import CONVERSATIONS
from .summary import Summary

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_BOT = "bot"


def notice(text: str) -> None:
    """Say something beside the result."""
    click.echo(safe_text(text), err=True)


def show_bad_lines(lines: Iterable[BadLine], total: int) -> None:
    """Name the first bad lines of the log, and how many there are."""
    for line in lines:
        notice(f"line {line.number} refused: {line.reason}")
    if total:
        notice(f"{total} bad line{'s' if total > 1 else ''} in the log")


@contextmanager
def progress_bar() -> Generator[Callable[[Tally], None]]:
    """A bar on standard error while the block runs, where that is a terminal; else one line when reading begins."""
    if not sys.stderr.isatty():
        yield _Beginning()
        return
    from rich.console import Console  # noqa: PLC0415 (costs a tenth of a second)
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    answered = TextColumn("read, {task.fields[sent]} answered")
    columns = (BarColumn(), MofNCompleteColumn(), answered, TimeElapsedColumn())
    with Progress(*columns, console=Console(file=sys.stderr), transient=True) as progress:
        task = progress.add_task("messages", total=None, sent=0)

        def advance(tally: Tally) -> None:
            progress.update(task, total=tally.total, completed=tally.settled, sent=tally.sent)

        yield advance


@contextmanager
def counting_bar(what: str) -> Generator[Callable[[int, int], None]]:
    """A bar on standard error while the block runs, where that is a terminal; it is told (done, of how many)."""
    if not sys.stderr.isatty():
        yield lambda _done, _of: None
        return
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(file=sys.stderr), transient=True) as progress:
        task = progress.add_task(what, total=None)

        def advance(done: int, of: int) -> None:
            progress.update(task, total=of, completed=done)

        yield advance


class _Beginning:
    """Says once how much there is to read."""

    def __init__(self) -> None:
        self._is_said = False

    def __call__(self, tally: Tally) -> None:
        if tally.total and not self._is_said:
            self._is_said = True
            notice(
                f"reading {tally.total} lines, {tally.known} of them known; if stopped, the same command goes on"
            )


def show_chat(answers: Iterable[SinkLine], file: IO[str] | None = None) -> None:
    """Show the demo's own conversations with the bot's answers below each message."""
    from rich.text import Text  # noqa: PLC0415

    console = _console(file)
    by_conversation: dict[str, list[str]] = {}
    for line in answers:
        by_conversation.setdefault(line.conversation, []).append(line.text)
    width = max(len(sender) for _, messages in CONVERSATIONS for sender, _, _ in messages)
    for name, messages in CONVERSATIONS:
        console.print(Text(safe_text(name), style="bold underline"))
        said = by_conversation.get(name, [])
        for turn, (sender, at, text) in enumerate(messages):
            console.print(_chat_line(at, sender, text, width, "cyan"))
            if turn < len(said):
                console.print(_chat_line("", _BOT, said[turn], width, "green"))
        console.print()


def _chat_line(at: str, who: str, text: str, width: int, style: str) -> Text:
    from rich.text import Text  # noqa: PLC0415

    return Text.assemble(
        (f"{safe_text(at):>5}  ", "dim"), (f"{safe_text(who):<{width}}  ", style), safe_text(text)
    )


def show_table(summary: Summary, file: IO[str] | None = None) -> None:
    """Show the summary: totals of the store beside what this run added."""
    from rich.table import Table  # noqa: PLC0415

    table = Table(title="shardline demo", title_justify="left")
    # A narrow terminal breaks the names, never the figures.
    table.add_column("", overflow="fold")
    table.add_column("store", justify="right", no_wrap=True)
    table.add_column("this run", justify="right", no_wrap=True)
    values: dict[str, float] = attrs.asdict(summary)
    for name, value in values.items():
        if name.startswith("run_"):
            continue
        run = values.get(f"run_{name}")
        table.add_row(name.replace("_", " "), f"{value:,}", "" if run is None else f"{run:,}")
    table.add_row("seconds", "", f"{summary.run_seconds:,}")
    _console(file).print(table)


def _console(file: IO[str] | None) -> Console:
    from rich.console import Console  # noqa: PLC0415

    return Console(file=file, highlight=False, soft_wrap=True)


__all__ = ["counting_bar", "notice", "progress_bar", "show_bad_lines", "show_chat", "show_table"]
