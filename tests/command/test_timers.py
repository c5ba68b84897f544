"""`shardline timers`: what is set is listed and taken back, beside a live bot or without one."""

from __future__ import annotations

import json
from pathlib import Path

import click.testing
import pytest
import trio

from shardline import BusMessage, Context, Cron, Every, Runtime, Topology
from shardline.testing import FakeChannel
from tests.kits.operated import HOSTILE, UNSAFE, operate, owner_of


def make_timers(path: Path) -> None:
    """Sets three timers by a turn of chat-1, and two by the topology."""

    async def main() -> None:
        topology = Topology()
        topology.topic("log")
        topology.every("report", Cron.daily("02:30", zone="Europe/Berlin"), {"n": 1}, topic="log")
        topology.every("tick", Every(10**8), HOSTILE[0], topic="chat.message", key="fake:tick")

        @topology.on("chat.message")
        async def answer(ctx: Context, message: BusMessage) -> None:
            for hours in (3, 2, 1):
                ctx.schedule(f"in {hours} hours", after_s=3600 * hours, key=f"fake:{hours}")

        channel = FakeChannel()
        async with Runtime.open(topology, store=path, adapters=[channel]) as runtime:
            with trio.fail_after(30):
                await channel.say("chat-1", "go")
                await runtime.wait_until(lambda: runtime.is_quiet)

    trio.run(main)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    make_timers(tmp_path / "bot.db")
    return tmp_path / "bot.db"


def records(ended: click.testing.Result) -> list[dict[str, object]]:
    assert ended.exit_code == 0, ended.output
    return [json.loads(line) for line in ended.stdout.splitlines()]


def run(store: Path, *arguments: str) -> click.testing.Result:
    return operate("timers", *arguments, "--store", store)


def test_timers_are_listed_the_next_one_first(store: Path) -> None:
    found = records(run(store, "list", "--json"))
    texts = [record["text"] for record in found]

    assert [record["due_at"] for record in found] == sorted(str(record["due_at"]) for record in found)
    assert [text for text in texts if str(text).startswith("in ")] == [f"in {n} hours" for n in (1, 2, 3)]
    by_id = {record["id"]: record for record in found}
    report, tick = by_id["every-report"], by_id["every-tick"]
    assert (report["rule"], report["zone"], report["kind"], report["text"]) == (
        "30 2 * * *", "Europe/Berlin", "event", '{"n":1}',
    )  # fmt: skip
    assert (tick["rule"], tick["wait_s"], tick["key"]) == ("every 100000000", 10**8, "fake:tick")
    assert not UNSAFE & set(run(store, "list").stdout.replace("\n", ""))


@pytest.mark.parametrize(
    ("filters", "count"),
    [
        (["key=fake:2"], 1),
        (["topic=log"], 1),
        (["id=every-tick"], 1),
        (["until=2h"], 0),
        (["since=2h", "topic=chat.message"], 4),
        (["key=fake:2", "topic=log"], 0),
    ],
)
def test_timers_are_filtered(store: Path, filters: list[str], count: int) -> None:
    assert len(records(run(store, "list", "--json", *filters))) == count


def test_an_unknown_field_is_exit_2(store: Path) -> None:
    ended = run(store, "list", "status=due")
    assert ended.exit_code == 2
    assert "fields: id, key, topic, since, until" in ended.stderr


def test_a_page_is_a_page(store: Path) -> None:
    every = records(run(store, "list", "--json"))
    assert records(run(store, "list", "--json", "--limit", "2", "--offset", "1")) == every[1:3]


def test_one_is_taken_back_without_an_owner(store: Path) -> None:
    [timer] = records(run(store, "list", "--json", "key=fake:2"))
    name = str(timer["id"])

    assert run(store, "cancel", name).exit_code == 2
    ended = run(store, "cancel", name, "--yes")
    assert (ended.exit_code, ended.stdout) == (0, f"{name} is taken back\n")
    again = run(store, "cancel", name, "--yes")
    assert again.exit_code == 1
    assert again.stderr.startswith("shardline: NOT_FOUND: ")
    assert records(run(store, "list", "--json", "key=fake:2")) == []


def test_one_is_taken_back_by_the_owner(store: Path) -> None:
    """Its bot declares no schedules: it takes those of the store out when it begins."""
    [timer] = records(run(store, "list", "--json", "key=fake:3"))
    with owner_of(store):
        ended = run(store, "cancel", str(timer["id"]), "--yes", "--json")
        assert json.loads(ended.stdout)["status"] == "done"
        left = records(run(store, "list", "--json"))
    assert [record["text"] for record in left] == ["in 1 hours", "in 2 hours"]


def test_one_that_comes_again_and_again_is_taken_back(tmp_path: Path) -> None:
    """A turn set it; one that the topology declares goes when it is declared no more."""
    path = tmp_path / "bot.db"

    async def main() -> None:
        topology = Topology()

        @topology.on("chat.message")
        async def answer(ctx: Context, message: BusMessage) -> None:
            ctx.schedule("again", every=Cron.daily("02:30", zone="Europe/Berlin"), key="fake:again")

        channel = FakeChannel()
        async with Runtime.open(topology, store=path, adapters=[channel]) as runtime:
            with trio.fail_after(30):
                await channel.say("chat-1", "go")
                await runtime.wait_until(lambda: runtime.is_quiet)

    trio.run(main)
    [timer] = records(run(path, "list", "--json"))
    assert (timer["rule"], timer["zone"]) == ("30 2 * * *", "Europe/Berlin")
    with owner_of(path):
        assert run(path, "cancel", str(timer["id"]), "--yes").exit_code == 0
        assert records(run(path, "list", "--json")) == []
    assert records(run(path, "list", "--json")) == []


def test_a_declared_one_is_refused(store: Path) -> None:
    ended = run(store, "cancel", "every-tick", "--yes")
    assert ended.exit_code == 1
    assert ended.stderr.startswith("shardline: INVALID_TRANSITION: ")


def test_status_counts_them_and_tells_the_next(store: Path) -> None:
    found = records(operate("status", "--store", store, "--json"))[0]["timers"]
    first = records(run(store, "list", "--json"))[0]

    assert found == {"count": 5, "next_at": first["due_at"]}
    assert "timers" in operate("status", "--store", store).stdout
