"""The page of the command says what the command is."""

from collections.abc import Iterator

import attrs
import click
import pytest

from shardline import ExitCode
from shardline.runtime.command.app import shardline
from shardline.runtime.command.arguments import FIELDS
from shardline.runtime.command.output import record_of
from shardline.storage.records import InboxStatus, OutboxState
from shardline.storage.sqlite.listing import DeadLine, MessageLine, SendLine
from shardline.storage.sqlite.timer_listing import TimerLine
from tests.kits.pages import ROOT, prose, tables, with_pages

pytestmark = with_pages

PAGE = ROOT / "docs/reference/command.md"


def leaves(group: click.Group, path: str) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        assert found is not None
        if isinstance(found, click.Group):
            yield from leaves(found, f"{path} {name}")
        else:
            yield f"{path} {name}", found


COMMANDS = dict(leaves(shardline, "shardline"))


def documented(section: str) -> set[str]:
    """The options that the tables of a section name."""
    return {
        row[0].strip("`").split()[0]
        for table in tables(PAGE, section)
        if table[0][0] == "option"
        for row in table[1:]
    }


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_in_a_table(name: str) -> None:
    options = {
        option
        for parameter in COMMANDS[name].params
        if isinstance(parameter, click.Option)
        for option in parameter.opts
    }
    shared = documented("## What they share")

    assert f"\n## {name}\n" in prose(PAGE)
    assert documented(f"## {name}") - shared == options - shared
    if name != "shardline demo":
        assert documented(f"## {name}") & shared == set()


def test_every_shared_option_is_shared() -> None:
    options = [
        {option for parameter in command.params for option in parameter.opts} for command in COMMANDS.values()
    ]

    for option in documented("## What they share"):
        assert sum(option in of for of in options) > 1


def test_every_command_is_in_the_first_table() -> None:
    table = tables(PAGE)[0]

    assert [row[0].strip("`") for row in table[1:]] == shardline.list_commands(click.Context(shardline))


def test_every_exit_code_is_in_both_tables() -> None:
    for section in ("### Exit codes of every command", "### Exit codes"):
        [codes] = tables(PAGE, section)

        assert [int(row[0]) for row in codes[1:]] == sorted(ExitCode)


def test_every_filter_is_in_the_table() -> None:
    [table] = tables(PAGE, "### Filters")

    assert {row[0].strip("`"): tuple(row[1].split(", ")) for row in table[1:]} == dict(FIELDS)


@pytest.mark.parametrize(
    ("listing", "line"),
    [("inbox", MessageLine), ("outbox", SendLine), ("dlq", DeadLine), ("timers", TimerLine)],
    ids=str,
)
def test_every_field_of_a_list_is_in_its_table(listing: str, line: type[attrs.AttrsInstance]) -> None:
    [table] = tables(PAGE, f"## shardline {listing} list")
    fields = list(record_of(line(**{field.name: None for field in attrs.fields(line)})))

    assert [row[0].strip("`") for row in table[1:]] == fields


def test_every_status_and_state_is_named() -> None:
    for listing, field, words in (("inbox", "status", InboxStatus), ("outbox", "state", OutboxState)):
        [table] = tables(PAGE, f"## shardline {listing} list")
        [meaning] = [row[1] for row in table if row[0] == f"`{field}`"]

        assert meaning.split(", ") == [word.value for word in words]
