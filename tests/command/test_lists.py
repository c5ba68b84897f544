"""What the lists show: filters, pages, order, and nothing that a terminal obeys."""

import json
import re
from pathlib import Path
from typing import cast

import apsw
import click.testing
import pytest

from shardline.runtime.command.arguments import FIELDS, List
from tests.kits.operated import HOSTILE, UNSAFE, make_store, operate

TEXTS = ("good", "bad one", "good", "bad two", "good", *HOSTILE)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("lists") / "bot.db"
    make_store(path, texts=TEXTS)
    return path


def records(ended: click.testing.Result) -> list[dict[str, object]]:
    assert ended.exit_code == 0, ended.output
    return [json.loads(line) for line in ended.stdout.splitlines()]


def ids(ended: click.testing.Result) -> list[object]:
    return [record["id"] for record in records(ended)]


def test_messages_come_newest_first_with_all_their_fields(store: Path) -> None:
    found = records(operate("inbox", "list", "--store", store, "--json"))

    assert [record["id"] for record in found] == [f"in-{number}" for number in range(10, 0, -1)]
    assert [record["text"] for record in found] == list(reversed(TEXTS))
    dead = found[-2]
    assert (dead["status"], dead["code"], dead["own_code"]) == ("dead", "HANDLER_FAILED", "x.bad")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?Z", str(dead["dead_at"]))


@pytest.mark.parametrize(
    ("listing", "filters", "expected"),
    [
        ("inbox", ["status=dead"], ["in-4", "in-2"]),
        ("inbox", ["id=3"], ["in-3"]),
        ("inbox", ["id=in-3"], ["in-3"]),
        ("inbox", ["key=fake:chat-1"], ["in-2"]),
        ("inbox", ["key=fake:chat-1", "status=done"], []),
        ("inbox", ["own_code=x.bad", "code=HANDLER_FAILED", "channel=fake", "topic=chat.message"], ["in-4", "in-2"]),
        ("inbox", ["topic=chat.other"], []),
        ("inbox", ["since=1h", "until=2999-01-01T00:00:00Z", "id=1"], ["in-1"]),
        ("inbox", ["until=1h"], []),
        ("outbox", ["state=uncertain"], ["out-1"]),
        ("outbox", ["state=dead"], ["out-2"]),
        ("outbox", ["code=RECIPIENT_BLOCKED", "part=0"], ["out-2"]),
        ("outbox", ["key=fake:chat-4", "state=sent"], ["out-3"]),
        ("dlq", [], ["in-4", "out-2", "in-2"]),
        ("dlq", ["kind=out"], ["out-2"]),
        ("dlq", ["id=in-2"], ["in-2"]),
        ("dlq", ["topic=chat.message"], ["in-4", "in-2"]),
        ("dlq", ["topic=chat.message", "kind=out"], []),
        ("dlq", ["own_code=x.bad", "since=1h"], ["in-4", "in-2"]),
    ],
)  # fmt: skip
def test_filters_choose(store: Path, listing: str, filters: list[str], expected: list[str]) -> None:
    assert ids(operate(listing, "list", *filters, "--store", store, "--json")) == expected


@pytest.mark.parametrize("listing", ["inbox", "outbox", "dlq"])
@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["colour=red"], "unknown field 'colour'; fields: {fields}"),
        (["red"], "'red' is no filter: write field=value; fields: {fields}"),
        (["key=a", "key=b"], "key is given twice"),
        (["id=x"], "'x' is no id"),
        (["since=yesterday"], "since 'yesterday' is no time"),
        (["key=\udcff"], "is no UTF-8"),
        (["--after", "in-"], "'in-' is no id"),
        (["red" * 5_000], "… (15,000 characters) is no filter"),
    ],
)
def test_a_wrong_argument_is_exit_2_and_says_what_is_known(
    store: Path, listing: List, given: list[str], words: str
) -> None:
    ended = operate(listing, "list", *given, "--store", store)

    assert ended.exit_code == 2
    assert ended.stdout == ""
    assert words.format(fields=", ".join(FIELDS[listing])) in ended.stderr
    assert len(ended.stderr) < 400


@pytest.mark.parametrize(
    ("listing", "given", "words"),
    [
        ("inbox", "status=lost", "there are: queued, running, failed, done, dead, parked, refused"),
        ("outbox", "state=lost", "there are: ready, flying, failed, uncertain, dead, sent"),
        ("dlq", "kind=both", "there are: in, out"),
        ("inbox", "part=x", "part 'x' is no number"),
        ("inbox", "id=out-1", "out-1 is a send"),
    ],
)
def test_a_value_that_none_can_have_is_exit_2(store: Path, listing: str, given: str, words: str) -> None:
    ended = operate(listing, "list", given, "--store", store)

    assert ended.exit_code == 2
    assert words in ended.stderr


def test_a_value_is_bound_never_spliced_in(store: Path) -> None:
    assert ids(operate("inbox", "list", "key=' OR 1=1 --", "--store", store, "--json")) == []


@pytest.mark.parametrize("listing", ["inbox", "outbox", "dlq"])
def test_pages_by_offset_and_by_row_are_the_whole_list(store: Path, listing: str) -> None:
    whole = ids(operate(listing, "list", "--store", store, "--json"))
    by_offset = [
        row
        for offset in range(0, len(whole), 2)
        for row in ids(
            operate(listing, "list", "--limit", "2", "--offset", str(offset), "--store", store, "--json")
        )
    ]
    by_row: list[object] = []
    page = whole[:2]
    while page:
        by_row += page
        options = ("--limit", "2", "--after", str(page[-1]), "--json")
        page = ids(operate(listing, "list", *options, "--store", store))

    assert by_offset == by_row == whole


def test_dead_letters_of_one_moment_are_paged_without_loss(tmp_path: Path) -> None:
    path = tmp_path / "bot.db"
    make_store(path, texts=("bad", "bad", "good", "bad", "good"))
    database = apsw.Connection(str(path))
    database.execute("UPDATE inbox SET dead_at = 7 WHERE status = 'dead'")
    database.execute("UPDATE outbox SET dead_at = 7, status = 'failed', uncertain_since = NULL")
    database.close()
    whole = ids(operate("dlq", "list", "--store", path, "--json"))

    assert whole == ["in-4", "in-2", "out-2", "in-1", "out-1"]
    for index, row in enumerate(whole):
        assert (
            ids(operate("dlq", "list", "--after", str(row), "--store", path, "--json")) == whole[index + 1 :]
        )


def test_an_empty_list_says_so_to_people_only(store: Path) -> None:
    people = operate("inbox", "list", "key=none", "--store", store)
    programs = operate("inbox", "list", "key=none", "--store", store, "--json")

    assert (people.exit_code, people.stdout, people.stderr) == (0, "", "no such message\n")
    assert (programs.exit_code, programs.output) == (0, "")


def test_show_has_the_text_every_error_and_on_demand_the_history(store: Path) -> None:
    [message] = records(operate("inbox", "show", "in-2", "--history", "--store", store, "--json"))
    [send] = records(operate("outbox", "show", "out-1", "--history", "--store", store, "--json"))

    assert message["text"] == "bad one"
    [error] = cast("list[dict[str, object]]", message["errors"])
    assert (error["code"], error["own_code"]) == ("HANDLER_FAILED", "x.bad")
    assert str(error["text"]).endswith(HOSTILE[0])
    assert [one["event"] for one in cast("list[dict[str, object]]", message["history"])] == [
        "accept+claim",
        "dead",
    ]
    assert send["caused_by"] == "in-1"
    assert [one["after"] for one in cast("list[dict[str, object]]", send["history"])] == [
        "flying",
        "uncertain",
    ]


def test_a_send_is_found_by_its_idempotency_key(store: Path) -> None:
    [send] = records(operate("outbox", "show", "out-2", "--store", store, "--json"))
    [again] = records(operate("outbox", "show", str(send["idempotency_key"]), "--store", store, "--json"))

    assert again == send


@pytest.mark.parametrize(
    ("command", "row"),
    [("inbox", "in-99"), ("outbox", "out-99"), ("outbox", "no such key"), ("dlq", "out-99")],
)
def test_a_row_that_is_not_there_is_exit_1(store: Path, command: str, row: str) -> None:
    ended = operate(command, "show", row, "--store", store)

    assert ended.exit_code == 1
    assert ended.stdout == ""
    assert ended.stderr.startswith("shardline: there is no ")


COMMANDS = (
    ("status",),
    ("inbox", "list"),
    ("outbox", "list"),
    ("dlq", "list"),
    *(("inbox", "show", str(number), "--history") for number in range(1, 11)),
    *(("outbox", "show", f"out-{number}") for number in range(1, 9)),
    ("doctor", "--full"),
)


@pytest.mark.parametrize("is_json", [False, True])
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_text_of_a_store_acts_on_the_terminal(
    store: Path, command: tuple[str, ...], is_json: bool
) -> None:
    ended = operate(*command, "--store", store, *(("--json",) if is_json else ()))

    assert ended.exit_code == 0
    assert UNSAFE.isdisjoint(ended.output.replace("\n", ""))
    if is_json:
        assert ended.output.isascii()


def test_a_table_has_one_line_a_row_and_no_markup(store: Path) -> None:
    lines = operate("inbox", "list", "--store", store).stdout.splitlines()

    assert len(lines) == 1 + len(TEXTS)
    assert lines[1].endswith("[red]markup[/red] [link=http://evil.example]here[/link]")
    assert "two\u240alines\u240dand\u2409tabs\u2421\ufffd31m" in lines[2]
    assert [line for line in lines if line != line.rstrip()] == []


def test_hostile_keys_and_filters_are_harmless_in_messages_too(tmp_path: Path) -> None:
    for arguments in (
        ("inbox", "list", f"{HOSTILE[0]}=1"),
        ("outbox", "show", HOSTILE[1]),
        ("inbox", "show", "\x1b[2J"),
    ):
        path = tmp_path / "bot.db"
        if not path.exists():
            make_store(path, texts=("good",))
        ended = operate(*arguments, "--store", path)

        assert ended.exit_code in {1, 2}
        assert UNSAFE.isdisjoint(ended.output.replace("\n", ""))


@pytest.mark.parametrize("body", [b"", b"\xff", b"\xc1"])
@pytest.mark.parametrize("listing", ["inbox", "outbox"])
def test_a_body_that_no_store_writes_is_damage_and_no_traceback(
    tmp_path: Path, listing: str, body: bytes
) -> None:
    path = tmp_path / "bot.db"
    make_store(path)
    database = apsw.Connection(str(path))
    database.execute(f"UPDATE {listing} SET body = ? WHERE id = 1", (body,))
    database.close()
    ended = operate(listing, "list", "--store", path)

    assert ended.exit_code == 1
    assert "STORE_CORRUPT" in ended.stderr
    assert ended.stderr.count("\n") == 1
