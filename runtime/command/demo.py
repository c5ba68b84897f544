"""`shardline demo`: a counting bot over a chat log, from the log to the sink, with everything on disk."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

import attrs
import click
import trio

from ...actors.errors import BusError, Code
from ...actors.message import BusMessage
from ...adapters.transcript import Sink, Tally, Transcript, open_sink, order_violations, read_sink
from ...storage.sqlite.look import Look
from ...storage.sqlite.overview import Overview, overview
from ..app import Runtime
from ..collector import calm_collector
from ..context import Context
from ..exit_code import ExitCode
from ..logs import set_up_logs
from ..stop_signals import stop_signals
from ..topology import Topology
from .paths import check_paths
from .problem import Problem
from .sample import sample_log
from .screen import notice, progress_bar, show_bad_lines, show_chat, show_table
from .summary import Summary, summarize

_UNUSABLE = frozenset({Code.STORE_MISMATCH, Code.STORE_IO})


@attrs.frozen(kw_only=True)
class DemoOptions:
    """The arguments of the command; a path that is None is the demo's own or temporary."""

    log: Path | None = None
    store: Path | None = None
    sink: Path | None = None
    as_is: bool = False
    durability: Literal["full", "normal"] = "full"
    as_json: bool = False


def counting_bot() -> Topology:
    """The bot: it answers every message with its number in the conversation, a colon, and the text."""
    topology = Topology()

    @topology.on("chat.message")
    async def count(ctx: Context, message: BusMessage) -> None:
        before = ctx.state.get("turn", 0)
        turn = before + 1 if isinstance(before, int) else 1
        ctx.state["turn"] = turn
        ctx.reply(f"{turn}: {message.payload.text}")

    return topology


def demo(options: DemoOptions) -> ExitCode:
    """Run the demo to its end.

    Returns:
        CLEAN; FAILURE if anything is dead or uncertain; CANCELLED_WORK, NOT_YET_DONE after a signal.
    Raises:
        Problem: exit code 2, a file cannot be used; nothing was touched.
        BusError: the runtime failed.
    """
    calm_collector()
    set_up_logs(drop=frozenset({"message.unreadable"}))
    with ExitStack() as stack:
        folder = Path()
        if options.log is None or options.store is None or options.sink is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="shardline-demo-")))
        store, sink_path = options.store or folder / "demo.db", options.sink or folder / "demo.out"
        check_paths(log=options.log, store=store, sink=sink_path)
        if options.store is None or options.sink is None:
            what = " and ".join(
                name for name, path in (("store", options.store), ("sink", options.sink)) if path is None
            )
            notice(f"temporary {what}, gone when the demo ends; keep them with --store FILE --sink FILE")
        log = options.log
        if log is None:
            log = folder / "sample.jsonl"
            log.write_bytes(sample_log())
        is_new = not sink_path.exists()
        sink = stack.enter_context(_opened(sink_path))
        try:
            ending, summary, tally = _run(options, log, store, sink)
        finally:
            if is_new and not sink_path.stat().st_size:
                # Nothing came of the run: leave no empty file behind.
                sink_path.unlink()
        show_bad_lines(tally.first_bad, tally.bad)
        held = sum(1 for _ in read_sink(sink_path)) if sink_path.exists() else 0
        if held < summary.sent:
            notice(
                f"the sink holds {held:,} of the {summary.sent:,} answers that the store has sent:"
                " it was cut short, or it is another file"
            )
        if options.as_json:
            click.echo(json.dumps(attrs.asdict(summary)))
        else:
            if options.log is None and sink_path.exists():
                show_chat(read_sink(sink_path))
            show_table(summary)
        return ending


def _opened(path: Path) -> Sink:
    try:
        return open_sink(path)
    except BusError as error:
        if error.code in _UNUSABLE:
            raise Problem(error.message) from error
        raise


def _run(options: DemoOptions, log: Path, store: Path, sink: Sink) -> tuple[ExitCode, Summary, Tally]:
    had_store = store.exists()
    # Before the runtime opens: it works on what waits from its first moment.
    before = _look_at(store) if had_store else None
    started = False

    async def run(progress: Callable[[Tally], None]) -> tuple[ExitCode, Summary, Tally]:
        with stop_signals(exit_code=ExitCode.CANCELLED_WORK) as signals:
            return await run_until(signals, progress)

    async def run_until(
        signals: AsyncIterator[int], progress: Callable[[Tally], None]
    ) -> tuple[ExitCode, Summary, Tally]:
        nonlocal started
        transcript = Transcript(log, sink, as_is=options.as_is, progress=progress)
        begun_s = trio.current_time()
        drained = False
        async with Runtime.open(
            counting_bot(), store=store, adapters=[transcript], durability=options.durability, signals=signals
        ) as runtime:
            started = True
            found = runtime.status() if before is None and had_store else before

            async def stop_when_drained() -> None:
                nonlocal drained
                await runtime.wait_drained()
                drained = True
                runtime.request_stop()

            async with trio.open_nursery() as nursery:
                nursery.start_soon(stop_when_drained)
                await runtime.serve()
                nursery.cancel_scope.cancel()
            seconds = trio.current_time() - begun_s
            after = runtime.status()
        wrong = list(order_violations(read_sink(sink.path)))
        wrong_before = sum(index < sink.known_lines for index in wrong)
        summary = summarize(
            found, after, transcript.tally, violations=(wrong_before, len(wrong)), seconds=seconds
        )
        if not drained:
            ending = ExitCode.CANCELLED_WORK if runtime.has_cancelled_work else ExitCode.NOT_YET_DONE
        else:
            ending = ExitCode.CLEAN if summary.is_clean else ExitCode.FAILURE
        return ending, summary, transcript.tally

    with progress_bar() as progress:
        try:
            return trio.run(run, progress)
        except BusError as error:
            if error.code in _UNUSABLE and not started and not had_store and not store.exists():
                raise Problem(f"--store {store} cannot be made: {error.message}") from error
            raise


def _look_at(store: Path) -> Overview | None:
    try:
        with Look(store) as look:
            return overview(look)
    except BusError:
        # An older schema, which opening upgrades; for all else opening says what is wrong.
        return None


def main(options: DemoOptions) -> None:
    """Run the demo and end the process with its exit code."""
    ending = demo(options)
    if ending in {ExitCode.CANCELLED_WORK, ExitCode.NOT_YET_DONE}:
        notice("stopped before the end; the same command goes on from here")
    sys.exit(ending)


__all__ = ["DemoOptions", "counting_bot", "demo", "main"]
