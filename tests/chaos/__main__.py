"""`script/soak --chaos`: seed after seed, for as long as asked."""

from __future__ import annotations

import random
import sys
import tempfile
import time
from pathlib import Path

import click

from tests.chaos.drive import drive

_SHOWN = 20


@click.command()
@click.option(
    "--minutes",
    default=60.0,
    show_default=True,
    help="Begin a seed until so much time is over; one at least.",
)
@click.option("--seed", type=int, help="The first one; the next ones count on.  [default: by chance]")
@click.option(
    "--runs", default=40, show_default=True, help="Processes of each seed, and one that ends in peace."
)
def main(minutes: float, seed: int | None, runs: int) -> None:
    """Mix kills, store faults, channel faults and clock jumps, and compare what is left with what was said."""
    ends_s = time.monotonic() + 60 * minutes
    number = random.SystemRandom().randrange(1_000_000) if seed is None else seed
    while True:
        click.echo(f"seed {number}: {runs} runs", err=True)
        with tempfile.TemporaryDirectory(prefix="shardline-chaos-") as folder:
            report = drive(Path(folder), number, runs)
        ends = ", ".join(f"{count} {end}" for end, count in sorted(report.ends.items()))
        click.echo(f"  {report.messages} messages; {ends}", err=True)
        for line, count in sorted(report.said.items()):
            click.echo(f"  the health said {line}, {count} times", err=True)
        if report.differences:
            for line in report.differences[:_SHOWN]:
                click.echo(f"  {line}", err=True)
            click.echo(f"{len(report.differences)} differences; the same again: {report.repeat}", err=True)
            sys.exit(1)
        number += 1
        if time.monotonic() >= ends_s:
            return


if __name__ == "__main__":
    main()
