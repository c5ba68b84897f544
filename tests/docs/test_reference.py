"""The reference pages say what the code says."""

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import apsw
import attrs
import pytest
import trio

from shardline import BusMessage, Context, ExitCode, Runtime, Topology
from shardline.actors.errors import REGISTRY
from shardline.runtime.channel import ChannelCaps
from shardline.runtime.command.summary import Summary
from shardline.runtime.defaults import DEFAULTS, DELIVERY_CONCURRENCY, SEND_TIMEOUT_S
from shardline.runtime.health import Word
from shardline.runtime.metrics import METRICS
from shardline.storage.sqlite.migrate import load_migrations
from shardline.testing import FakeChannel
from tests.kits.pages import ROOT, code_blocks, prose, tables, with_pages

pytestmark = with_pages

REFERENCE = ROOT / "docs/reference"
SOURCES = ("actors", "runtime", "storage", "adapters", "src/shardline")
LEVELS = ("debug", "info", "warning", "error", "exception", "critical")
EVENT = re.compile(r"[a-z_]+\.[a-z_]+")


def test_every_code_is_in_the_table_as_in_the_registry() -> None:
    table = next(table for table in tables(REFERENCE / "errors.md") if table[0][0] == "code")

    assert table[1:] == [[e.code.value, e.permanence.value, e.meaning, e.action] for e in REGISTRY]


def test_every_default_is_in_the_table_as_in_the_code() -> None:
    [table, *_] = tables(REFERENCE / "defaults.md")

    assert table[1:] == [[f"`{d.name}`", f"{d.value:,.10g}", d.unit, d.meaning] for d in DEFAULTS]


def test_a_default_that_nothing_reads_is_named_as_such() -> None:
    """Whoever builds the part that reads one takes it off the list."""
    code = "\n".join(
        path.read_text()
        for folder in SOURCES
        for path in (ROOT / folder).rglob("*.py")
        if path.name != "defaults.py"
    )
    _, _, listing = prose(REFERENCE / "defaults.md").partition("## Named, but not in force yet\n")
    listed = re.findall(r"`(\w+)`", "\n".join(re.findall(r"^- (.+?):", listing, re.MULTILINE)))

    assert listed
    assert [name for name in listed if re.search(rf"\b{name.upper()}\b", code)] == []


def test_what_an_adapter_leaves_out_is_the_default_of_the_table() -> None:
    caps = ChannelCaps()

    assert (caps.send_timeout_s, caps.concurrency) == (SEND_TIMEOUT_S, DELIVERY_CONCURRENCY)


def test_every_metric_is_in_the_table_as_in_the_code() -> None:
    [table, *_] = tables(REFERENCE / "metrics.md")

    assert table[1:] == [[f"`{one.name}`", one.kind, ", ".join(one.labels), one.meaning] for one in METRICS]


def test_every_word_of_the_health_is_on_its_page() -> None:
    [table] = (one for one in tables(ROOT / "docs/how-to/watch-a-bot.md") if one[0][0] == "reason")

    assert [row[0] for row in table[1:]] == [f"`{word}`" for word in get_args(Word)]


@attrs.frozen
class Logged:
    """One call of a logger."""

    event: str
    level: str
    keys: frozenset[str]
    bound: frozenset[str]
    """Keys that some `bind` of its file adds."""


def keywords(call: ast.Call) -> frozenset[str]:
    return frozenset(word.arg for word in call.keywords if word.arg is not None)


def logged() -> Iterator[Logged]:
    for path in sorted({path for folder in SOURCES for path in (ROOT / folder).rglob("*.py")}):
        calls = [
            (node.func.attr, node)
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        ]
        bound = frozenset[str]().union(*(keywords(call) for name, call in calls if name == "bind"))
        for name, call in calls:
            event = call.args[0] if call.args and name in LEVELS else None
            if isinstance(event, ast.Constant) and EVENT.fullmatch(str(event.value)):
                yield Logged(str(event.value), name, keywords(call), bound)


def test_every_log_event_is_in_the_table_with_its_keys() -> None:
    [table, *_] = tables(REFERENCE / "log-events.md")
    documented = {
        (event.strip("`"), level): frozenset(keys.split(", ")) for event, level, _, keys in table[1:]
    }
    found = list(logged())

    assert [row[0] for row in table[1:]] == sorted(row[0] for row in table[1:])
    assert documented.keys() == {(one.event, one.level) for one in found}
    for one in found:
        keys = documented[one.event, one.level]
        assert one.keys <= keys, one.event
        assert keys <= one.keys | one.bound, one.event


def test_every_column_of_the_store_is_in_the_tables() -> None:
    database = apsw.Connection(":memory:")
    for step in load_migrations():
        database.execute(step.script)
    names = [str(name) for (name,) in database.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    for name in names:
        [table] = tables(REFERENCE / "store.md", f"### {name}")
        columns = [
            [f"`{column}`", str(kind)]
            for _, column, kind, *_ in database.execute(f"PRAGMA table_info({name})")
        ]
        assert [row[:2] for row in table[1:]] == columns, name


def texts_of(path: Path, *names: str) -> set[str]:
    """The texts that the named functions and constants of a source file hold, docstrings aside."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef) and node.name in names:
            body = node.body[1:] if ast.get_docstring(node) else node.body
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            body = [node] if any(isinstance(one, ast.Name) and one.id in names for one in targets) else []
        else:
            continue
        constants = (
            inner.value for part in body for inner in ast.walk(part) if isinstance(inner, ast.Constant)
        )
        found |= {value for value in constants if isinstance(value, str)}
    return found


def test_every_word_of_the_history_is_in_the_table() -> None:
    [table] = tables(REFERENCE / "store.md", "## Words of the history")
    documented = {kind: words.split(", ") for kind, words in table[1:]}
    moves_in = texts_of(ROOT / "runtime/inbox_rules.py", "_WORDS", "event_word")
    moves_out = texts_of(ROOT / "runtime/outbox_events.py", "_WORDS", "event_word")
    born_in = texts_of(ROOT / "storage/sqlite/new_rows.py", "_ACCEPT_WORDS")

    assert sorted(documented["in"]) == sorted(moves_in | born_in)
    assert sorted(documented["out"]) == sorted(moves_out | {"enqueue", "enqueue+start"})


async def make_store(path: Path) -> None:
    topology = Topology()

    @topology.on("chat.message")
    async def echo(ctx: Context, message: BusMessage) -> None:
        ctx.reply(message.payload.text)

    channel = FakeChannel()
    async with Runtime.open(topology, store=path, adapters=[channel]) as runtime:
        for number in range(10):
            await channel.say(f"chat-{number % 3}", f"text {number}")
        await runtime.wait_until(lambda: runtime.is_quiet)


@pytest.mark.parametrize("damage", [None, "UPDATE history SET claim = claim + 1 WHERE id = 12"])
def test_the_page_checks_the_hash_chain_of_a_real_store(damage: str | None, tmp_path: Path) -> None:
    trio.run(make_store, tmp_path / "bot.db")
    if damage is not None:
        apsw.Connection(str(tmp_path / "bot.db")).execute(damage)
    [script] = code_blocks(REFERENCE / "store.md", "python")
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=50, check=False)

    assert (done.returncode == 0) == (damage is None)
    assert ("AssertionError" in done.stderr) == (damage is not None)


FAILING_BOT = """
import os, signal
import structlog, trio, trio.testing
from shardline import Permanent, Topology, run
from shardline.adapters.base import ChannelCaps, Inbound
topology = Topology()
@topology.on("chat.message")
async def fail(ctx, message):
    words = message.payload.text
    raise Permanent("x.no")
class Once:
    name, prefix, caps = "once", "once", ChannelCaps()
    async def run(self, edge, *, task_status=trio.TASK_STATUS_IGNORED):
        task_status.started()
        await edge.accept(Inbound(platform_message_id="1", address="ann", text="a private word"))
        await trio.testing.wait_all_tasks_blocked()
        os.kill(os.getpid(), signal.SIGTERM)
    async def send(self, out): ...
"""


@pytest.mark.parametrize("is_set_up", [False, True])
def test_run_logs_as_the_page_says(is_set_up: bool, tmp_path: Path) -> None:
    own = "structlog.configure(processors=[structlog.processors.KeyValueRenderer()])\n" if is_set_up else ""
    script = f"{FAILING_BOT}{own}run(topology, store='bot.db', adapters=[Once()])\n"
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=50, check=True)

    if is_set_up:
        assert "event='turn.died'" in done.stdout
        assert done.stderr == ""
    else:
        events = [json.loads(line) for line in done.stderr.splitlines()]
        assert [event["event"] for event in events] == ["store.opened", "turn.died"]
        assert done.stdout == ""
    assert "private" not in done.stdout + done.stderr


def test_every_field_of_the_summary_is_in_the_table() -> None:
    [summary] = tables(REFERENCE / "command.md", "### The summary")
    fields = [field.name for field in attrs.fields(Summary) if not field.name.startswith("run_")]

    assert [row[0].strip("`") for row in summary[1:]] == [*fields, "run_seconds"]


def test_every_exit_code_is_in_the_table() -> None:
    [codes] = tables(REFERENCE / "command.md", "### Exit codes")

    assert [int(row[0]) for row in codes[1:]] == sorted(ExitCode)
