"""Field entry 11: a web hook answered late is called again and again, and a chat's updates pile up.

Right: check the secret, commit, answer 200; a handler's time has no part in it. A commit that fails is answered 5xx, so
that the platform keeps the update; the same update five times at once is one row.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import httpx
import trio

from shardline import BusMessage, Context, Runtime, Topology
from shardline.actors.errors import BusError, Code
from shardline.adapters.base import Inbound
from shardline.adapters.telegram import Webhook
from shardline.adapters.telegram.intake import Intake, Tally
from shardline.adapters.telegram.serving import serve_app
from shardline.adapters.telegram.update import Me, Reading
from shardline.adapters.telegram.webhook import WebhookApp
from shardline.storage.memory import open_memory
from shardline.testing import FakeEdge
from tests.adapters.telegram import samples
from tests.adapters.telegram.platform import echo_bot, open_platform
from tests.kits.disks import Disk
from tests.kits.ports import kept_port

SECRET = "a-secret_of-tests"
UPDATE = json.dumps(samples.MESSAGE).encode()


@asynccontextmanager
async def calling(base: str) -> AsyncGenerator[httpx.AsyncClient]:
    headers = {"X-Telegram-Bot-Api-Secret-Token": SECRET}
    async with httpx.AsyncClient(base_url=base, headers=headers, trust_env=False) as client:
        yield client


@asynccontextmanager
async def served(edge: FakeEdge) -> AsyncGenerator[httpx.AsyncClient]:
    intake = Intake(edge, Reading(me=Me(id=4200)), {}, Tally())
    app = WebhookApp(Webhook(secret=SECRET), intake)
    async with trio.open_nursery() as nursery:
        [base] = await nursery.start(partial(serve_app, app, host="127.0.0.1", port=0))
        async with calling(base) as client:
            yield client
        nursery.cancel_scope.cancel()


def edge() -> FakeEdge:
    return FakeEdge(channel="telegram", prefix="tg", linear=False)


async def test_a_slow_handler_delays_no_answer() -> None:
    topology = Topology()
    began = trio.Event()

    @topology.on("chat.message", timeout_s=120)
    async def slow(ctx: Context, message: BusMessage) -> None:
        began.set()
        await trio.sleep(120)

    async with open_platform() as platform:
        hook = Webhook(secret=SECRET, url="https://bot.example/telegram", port=kept_port())
        adapter = platform.adapter(webhook=hook)
        async with (
            Runtime.open(topology, store=open_memory(), adapters=[adapter], grace_s=0) as runtime,
            calling(f"http://127.0.0.1:{hook.port}") as client,
        ):
            with trio.fail_after(30):
                answers = [await client.post("/telegram", content=UPDATE) for _ in range(2)]
                await began.wait()
                async with trio.open_nursery() as nursery:
                    for _ in range(5):
                        nursery.start_soon(partial(client.post, "/telegram", content=UPDATE))
            rows = sum(runtime.status().inbox.values())

        [told] = [call for call in platform.bot.calls if call.method == "setWebhook"]
        assert [answer.status_code for answer in answers] == [200, 200]
        assert rows == 1
        assert (told.fields["url"], told.fields["secret_token"]) == (hook.url, SECRET)


async def test_a_full_disk_is_503_and_the_resend_is_taken() -> None:
    full = edge()
    full.error = BusError(Code.STORE_FULL, "no room")
    full.fails_after = 0
    async with served(full) as client:
        refused = await client.post("/telegram", content=UPDATE)
        full.error = None
        taken = await client.post("/telegram", content=UPDATE)

    assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
    assert taken.status_code == 200
    assert len(full.accepted) == 1


async def test_a_disk_that_is_full_is_503_without_a_row_and_one_row_once_it_has_room(tmp_path: Path) -> None:
    disk = Disk(tmp_path / "bot.db")
    said = {"message_id": 1, "date": 1, "chat": {"id": 5, "type": "private"}, "text": "x" * 4_000}
    update = json.dumps({"update_id": 1, "message": said})
    async with open_platform() as platform:
        hook = Webhook(secret=SECRET, url="https://bot.example/telegram", port=kept_port())
        adapter = platform.adapter(webhook=hook)
        async with (
            Runtime.open(echo_bot(), store=disk.store, adapters=[adapter]) as runtime,
            calling(f"http://127.0.0.1:{hook.port}") as client,
        ):
            with trio.fail_after(30):
                disk.leave(0)
                refused = await client.post("/telegram", content=update)
                while_full = runtime.messages.list(limit=10)
                disk.heal()
                # As the platform does; the store tries again half a second later.
                while (await client.post("/telegram", content=update)).status_code == 503:
                    pass
                repeated = await client.post("/telegram", content=update)
                rows = runtime.messages.list(limit=10)

    assert (refused.status_code, while_full) == (503, [])
    assert (repeated.status_code, len(rows)) == (200, 1)


async def test_an_update_is_answered_once_it_is_stored_and_not_before() -> None:
    slow = edge()
    is_held, may_commit = trio.Event(), trio.Event()
    answers: list[int] = []

    async def hold(_: Inbound) -> None:
        is_held.set()
        await may_commit.wait()

    slow.before_commit = hold
    async with served(slow) as client, trio.open_nursery() as nursery:

        async def post() -> None:
            answers.append((await client.post("/telegram", content=UPDATE)).status_code)

        nursery.start_soon(post)
        with trio.fail_after(30):
            await is_held.wait()
            # Another call is answered meanwhile: it is this one alone that waits.
            assert (await client.post("/elsewhere", content=UPDATE)).status_code == 404
            assert answers == []
            may_commit.set()
    assert answers == [200]


async def test_the_same_update_five_times_at_once_is_five_times_200_and_one_row() -> None:
    answers: list[int] = []
    async with open_platform() as platform:
        hook = Webhook(secret=SECRET, url="https://bot.example/telegram", port=kept_port())
        adapter = platform.adapter(webhook=hook)
        async with (
            Runtime.open(echo_bot(), store=open_memory(), adapters=[adapter]) as runtime,
            calling(f"http://127.0.0.1:{hook.port}") as client,
        ):

            async def post() -> None:
                answers.append((await client.post("/telegram", content=UPDATE)).status_code)

            with trio.fail_after(30):
                async with trio.open_nursery() as nursery:
                    for _ in range(5):
                        nursery.start_soon(post)
            rows = sum(runtime.status().inbox.values())

    assert answers == [200] * 5
    assert rows == 1


async def test_only_who_knows_the_secret_is_heard() -> None:
    heard = edge()
    async with served(heard) as client:
        header = "X-Telegram-Bot-Api-Secret-Token"
        answers = [
            await client.post("/telegram", content=UPDATE, headers={header: "wrong"}),
            await client.post("/telegram", content=UPDATE, headers={header: ""}),
            await client.post("/other", content=UPDATE),
            await client.get("/telegram"),
            await client.post("/telegram", content=b"x" * (4 * 1024 * 1024 + 1)),
        ]

    assert [answer.status_code for answer in answers] == [401, 401, 404, 405, 413]
    assert heard.offered == []


async def test_what_cannot_be_read_is_kept_as_it_came_and_never_comes_again() -> None:
    bad = b'{"update_id": 8, "message": {"x": NaN}}'
    kept = edge()
    async with served(kept) as client:
        answers = [await client.post("/telegram", content=body) for body in (bad, b"no json at all")]

    assert [answer.status_code for answer in answers] == [200, 200]
    assert [(one.platform_message_id, one.raw) for one in kept.accepted] == [("update:8:unreadable", bad)]
