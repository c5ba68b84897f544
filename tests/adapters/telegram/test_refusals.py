"""Every line of the table of refusals, from the server in its own process to what the outbox row shows."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Generator, Mapping
from typing import cast

import attrs
import pytest
import trio

from shardline import Runtime
from shardline.actors.errors import Code
from shardline.adapters.telegram import Telegram
from shardline.adapters.telegram.sim.script import message_update
from shardline.storage.records import OutboxRecord, OutboxState
from tests.adapters.telegram.platform import FREE, echo_bot
from tests.adapters.telegram.test_bot import LIMIT_S, store
from tests.adapters.telegram.test_command import sim

GROUP = -1001557000001
MOVED = -1001557000002
SENT, DEAD, UNCERTAIN = OutboxState.SENT, OutboxState.DEAD, OutboxState.UNCERTAIN


@attrs.frozen
class Line:
    """A refusal, and what becomes of the send.

    Attributes:
        times: How often it comes; less than 0 is always.
        calls: Of sendMessage, in all.
        code: Of the row's last error; None where it is neither dead nor uncertain.
        degraded: What it went out without.
    """

    refusal: int
    description: str
    state: OutboxState
    code: Code | None
    calls: int = 1
    times: int = -1
    degraded: str | None = None
    parameters: Mapping[str, int] = attrs.field(factory=dict[str, int])
    kind: str = "refuse"


def bad(text: str) -> str:
    return f"Bad Request: {text}"


TABLE = [
    Line(400, bad("chat not found"), DEAD, Code.RECIPIENT_NOT_FOUND),
    Line(400, bad("private chat not found"), DEAD, Code.RECIPIENT_NOT_FOUND),
    Line(
        400,
        bad("group chat was upgraded to a supergroup chat"),
        SENT,
        None,
        calls=2,
        parameters={"migrate_to_chat_id": MOVED},
    ),
    *[
        line
        for text, given_up in [
            ("message thread not found", "thread"),
            ("message to be replied not found", "reply"),
            ("can't parse entities: unclosed", "formatting"),
        ]
        for line in [
            Line(400, bad(text), SENT, None, calls=2, times=1, degraded=given_up),
            Line(400, bad(text), DEAD, Code.CONTENT_REFUSED, calls=2),
        ]
    ],
    Line(400, bad("message is too long"), DEAD, Code.TOO_LARGE, calls=2),
    Line(400, bad("Text is too long"), DEAD, Code.TOO_LARGE, calls=2),
    Line(400, bad("not enough rights to send text messages to the chat"), DEAD, Code.NO_ACCESS),
    Line(400, bad("have no rights to send a message"), DEAD, Code.NO_ACCESS),
    Line(400, bad("message is not modified"), SENT, None),
    Line(400, bad("message to delete not found"), SENT, None),
    Line(403, "Forbidden: bot was blocked by the user", DEAD, Code.RECIPIENT_BLOCKED),
    Line(403, "Forbidden: user is deactivated", DEAD, Code.RECIPIENT_NOT_FOUND),
    Line(403, "Forbidden: bot was kicked from the supergroup chat", DEAD, Code.NO_ACCESS),
    Line(403, "Forbidden: bot is not a member of the channel chat", DEAD, Code.NO_ACCESS),
    Line(403, "Forbidden: bot can't initiate conversation with a user", DEAD, Code.RECIPIENT_BLOCKED),
    Line(403, "Forbidden: the group chat was deleted", DEAD, Code.RECIPIENT_NOT_FOUND),
    Line(404, "Not Found", DEAD, Code.DELIVERY_PERMANENT),
    Line(413, "Request Entity Too Large", DEAD, Code.TOO_LARGE, calls=2),
    Line(
        429, "Too Many Requests: retry after 1", SENT, None, calls=2, times=1, parameters={"retry_after": 1}
    ),
    Line(500, "Internal Server Error: restart", SENT, None, calls=2, times=1),
    Line(502, "", UNCERTAIN, Code.DELIVERY_UNCERTAIN, kind="html"),
    Line(401, "Unauthorized", OutboxState.READY, None),
]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    """The server's address; each token has a queue and faults of its own."""
    with sim(tmp_path_factory.mktemp("sim"), {}) as address:
        yield address


async def tell(base: str, token: str, verb: str, told: object) -> dict[str, object]:
    def ask() -> object:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"{base}/sim/{token}/{verb}", json.dumps(told).encode(), timeout=LIMIT_S) as answer:
            return json.load(answer)

    return cast("dict[str, object]", await trio.to_thread.run_sync(ask))


@pytest.mark.parametrize("line", TABLE, ids=lambda line: f"{line.refusal} {line.description} {line.state}")
async def test_what_becomes_of_a_refused_send(line: Line, base: str) -> None:
    token = f"{9000 + TABLE.index(line)}:refused"
    fault = {
        "method": "sendMessage",
        "kind": line.kind,
        "times": line.times,
        "chat": GROUP,
        "code": line.refusal,
        "description": line.description,
        "parameters": dict(line.parameters),
    }
    await tell(base, token, "fault", fault)
    said = cast("dict[str, object]", message_update(GROUP, "hi", 1, sender=7)["message"])
    topic = {"message_thread_id": 7, "is_topic_message": True}
    await tell(base, token, "push", {"message": said | topic})
    adapter = Telegram(token, api_base=base, limits=FREE, quote="always", parse_mode="HTML")
    async with Runtime.open(echo_bot(), store=store(), adapters=[adapter]) as runtime:

        def head_row() -> OutboxRecord | None:
            """Behind it there may be what was split off."""
            return next((found.record for found in runtime.outbox.list() if found.record.part == 0), None)

        def is_settled() -> bool:
            head, is_stopped = head_row(), runtime.status().channels["telegram"].is_stopped
            return head is not None and (is_stopped or head.state is line.state) and runtime.is_quiet

        try:
            with trio.fail_after(LIMIT_S):
                await runtime.wait_until(is_settled)
        finally:
            await adapter.aclose()
        row = head_row()
        assert row is not None
        told = await tell(base, token, "calls", {})

    assert (row.state, row.degraded) == (line.state, line.degraded)
    assert (row.errors[-1].code if row.state in {DEAD, UNCERTAIN} else None) == line.code
    calls = cast("list[dict[str, object]]", told["calls"])
    assert len([call for call in calls if call["method"] == "sendMessage"]) == line.calls
    if line.refusal == 429:
        assert row.attempts == 1
