"""`script/soak --stress`: plan after plan, each with a seed of its own, for as long as asked."""

from __future__ import annotations

import random
import sys
import tempfile
import time
from pathlib import Path
from typing import cast

import click

from tests.stress.drive import Report, drive
from tests.stress.plan import FULL, Sizes

_MIB = 1 << 20
_SHOWN = 40


@click.command()
@click.option(
    "--minutes",
    default=60.0,
    show_default=True,
    help="Begin a plan until so much time is over; one at least.",
)
@click.option("--seed", type=int, help="Of the first plan; the next ones count on.  [default: by chance]")
@click.option("--conversations", default=FULL.conversations, show_default=True)
@click.option("--messages", default=FULL.messages, show_default=True)
@click.option("--kills", default=FULL.kills, show_default=True)
def main(minutes: float, seed: int | None, conversations: int, messages: int, kills: int) -> None:
    """Put the runtime under stress with kills and crashes, and compare what is left with a model."""
    sizes = Sizes(conversations=conversations, messages=messages, kills=kills)
    ends_s = time.monotonic() + 60 * minutes
    number = random.SystemRandom().randrange(1_000_000) if seed is None else seed
    while True:
        click.echo(f"seed {number}: {sizes.conversations} conversations, {sizes.messages} messages", err=True)
        with tempfile.TemporaryDirectory(prefix="shardline-stress-") as folder:
            report = drive(Path(folder), number, sizes)
        click.echo(summary(report), err=True)
        if report.differences:
            for line in report.differences[:_SHOWN]:
                click.echo(f"  {line}", err=True)
            click.echo(f"{len(report.differences)} differences; the same again: {report.repeat}", err=True)
            sys.exit(1)
        number += 1
        if time.monotonic() >= ends_s:
            return


def summary(report: Report) -> str:
    """What a plan came to, in a few lines."""
    memory = [cast("int", facts["memory_bytes"]) // _MIB for facts in report.samples]
    objects = [facts["objects"] for facts in report.samples]
    struck = cast("list[str]", report.done.get("struck", []))
    return (
        f"  {report.took_s:.0f} s, {report.plan.sizes.messages / report.took_s:.0f} messages/s;"
        f" runs: {', '.join(report.endings)}; actor crashes in the last: {len(struck)}\n"
        f"  memory {memory} MiB, objects {objects}, store {report.file_bytes // _MIB} MiB"
    )


if __name__ == "__main__":
    main()
