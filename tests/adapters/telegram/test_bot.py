"""A whole bot on Telegram, over real sockets: what users of such bots met, with their own inputs."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
import trio

from shardline import BusMessage, Context, Runtime, Topology
from shardline.actors.errors import BusError, Code, error_code_of
from shardline.adapters.telegram import Telegram, answer_callback, button, inline_keyboard, message
from shardline.adapters.telegram.sim.script import Fault, Script
from shardline.content import Edit
from shardline.runtime.health import HealthState
from shardline.storage.memory import MemoryDatabase, open_memory
from shardline.storage.port import Store
from shardline.storage.records import InboxStatus, OutboxState
from tests.adapters.telegram import samples
from tests.adapters.telegram.platform import echo_bot, open_platform

LIMIT_S = 100.0


def store(database: MemoryDatabase | None = None) -> Store:
    return open_memory(database=database or MemoryDatabase())


async def quiet(runtime: Runtime, is_so: Callable[[], bool]) -> None:
    """Until the platform has what is awaited, and nothing is left to do."""
    with trio.fail_after(LIMIT_S):
        await runtime.wait_until(lambda: is_so() and runtime.is_quiet)


async def test_a_bot_answers_and_confirms() -> None:
    async with open_platform() as platform:
        platform.bot.say(5, "hi")
        adapter = platform.adapter()
        async with Runtime.open(echo_bot(), store=store(), adapters=[adapter]) as runtime:
            await quiet(runtime, lambda: len(platform.bot.sent()) == 1)
            platform.bot.say(-1001557000001, "and you")
            await quiet(runtime, lambda: len(platform.bot.sent()) == 2)

        private, group = platform.bot.sent()
        assert private.fields == {"chat_id": 5, "text": "hi"}
        assert group.fields["reply_parameters"] == {"message_id": 1}


async def test_f08_and_f09_what_comes_again_is_known() -> None:
    """The server forgets every confirmation: 20 updates, five lives, one answer each."""
    script = Script(keeps=True)
    async with open_platform(script) as platform:
        for number in range(1, 21):
            platform.bot.say(number % 4 + 1, f"text {number}")
        database = MemoryDatabase()
        for life in range(5):
            async with Runtime.open(
                echo_bot(), store=store(database), adapters=[platform.adapter()]
            ) as runtime:
                await quiet(runtime, lambda: len(platform.bot.sent()) == 20 and platform.bot.waiting == 0)
                assert runtime.status().inbox[InboxStatus.DONE] == 20, life

        assert sorted(call.text or "" for call in platform.bot.sent()) == sorted(
            f"text {number}" for number in range(1, 21)
        )


async def test_f19_four_ways_of_no_answer() -> None:
    """Refused connections are tried again; a drop after the body and a hang are uncertain; 502 with HTML too."""
    async with open_platform() as platform:
        bot = platform.bot
        bot.add_fault(Fault(method="sendMessage", kind="drop_after", text="b"))
        bot.add_fault(Fault(method="sendMessage", kind="half", text="c"))
        bot.add_fault(Fault(method="sendMessage", kind="html", code=502, text="d"))
        bot.add_fault(Fault(method="sendMessage", kind="refuse", code=500, text="e"))
        for chat, text in enumerate("abcde", 1):
            bot.say(chat, text)
        async with Runtime.open(echo_bot(), store=store(), adapters=[platform.adapter()]) as runtime:
            await quiet(runtime, lambda: len([one for one in bot.calls if one.method == "sendMessage"]) == 6)
            rows = {row.record.conversation_key: row.record for row in runtime.outbox.list()}

        states = [rows[f"tg:{chat}"].state for chat in range(1, 6)]
        assert states == [
            OutboxState.SENT,
            OutboxState.UNCERTAIN,
            OutboxState.UNCERTAIN,
            OutboxState.UNCERTAIN,
            OutboxState.SENT,
        ]
        assert [call.text for call in bot.sent()].count("b") == 1
        assert "HTTP 502" in str(rows["tg:4"].errors[-1])


async def test_f25_a_flood_costs_no_attempt_and_holds_no_other_chat() -> None:
    async with open_platform() as platform:
        bot = platform.bot
        flood = Fault(
            method="sendMessage",
            kind="refuse",
            times=2,
            chat=5,
            code=429,
            description="Too Many Requests: retry after 1",
            parameters={"retry_after": 1},
        )
        bot.add_fault(flood)
        bot.say(5, "slow")
        bot.say(6, "fast")
        async with Runtime.open(echo_bot(), store=store(), adapters=[platform.adapter()]) as runtime:
            await quiet(runtime, lambda: len(bot.sent()) == 2)
            [row] = [row.record for row in runtime.outbox.list(key="tg:5")]

        times = [call.at_s for call in bot.calls if call.chat == 5]
        assert [later - sooner >= 1 for sooner, later in pairwise(times)] == [True, True]
        assert (row.state, row.attempts) == (OutboxState.SENT, 1)
        assert bot.sent(6)[0].at_s < times[1]


async def test_f26_a_group_that_became_a_supergroup() -> None:
    """The first send is told; three texts arrive there in order, and what comes from there is the same conversation."""
    async with open_platform() as platform:
        bot = platform.bot
        moved = Fault(
            method="sendMessage",
            kind="refuse",
            times=-1,
            chat=-4001,
            code=400,
            description="Bad Request: group chat was upgraded to a supergroup chat",
            parameters={"migrate_to_chat_id": -1001557000001},
        )
        bot.add_fault(moved)
        for number in (1, 2, 3):
            bot.say(-4001, f"m{number}", sender=7)
        async with Runtime.open(echo_bot(), store=store(), adapters=[platform.adapter()]) as runtime:
            await quiet(runtime, lambda: len(bot.sent()) == 3)
            bot.say(-1001557000001, "here", sender=7)
            await quiet(runtime, lambda: len(bot.sent()) == 4)
            keys = {row.record.conversation_key for row in runtime.outbox.list()}

        assert [(call.chat, call.text) for call in bot.sent()] == [
            (-1001557000001, text) for text in ("m1", "m2", "m3", "here")
        ]
        assert keys == {"tg:-4001"}


async def test_f26_the_service_message_of_a_migration_tells_too() -> None:
    async with open_platform() as platform:
        bot = platform.bot
        bot.push({"message": samples.body_of(samples.MIGRATION)})
        bot.say(-1001557000002, "here", sender=7)
        async with Runtime.open(echo_bot(), store=store(), adapters=[platform.adapter()]) as runtime:
            await quiet(runtime, lambda: len(bot.sent()) == 1)
            [row] = [row.record for row in runtime.outbox.list()]

        assert (bot.sent()[0].chat, row.conversation_key) == (-1001557000002, "tg:-4001")


@pytest.mark.parametrize(
    ("description", "field"),
    [
        ("Bad Request: message thread not found", "message_thread_id"),
        ("Bad Request: message to be replied not found", "reply_parameters"),
        ("Bad Request: can't parse entities: Can't find end", "parse_mode"),
    ],
)
async def test_f27_and_f28_what_is_refused_is_left_out_once(description: str, field: str) -> None:
    async with open_platform() as platform:
        bot = platform.bot
        bot.add_fault(Fault(method="sendMessage", kind="refuse", code=400, description=description))
        bot.push({"message": samples.body_of(samples.TOPIC)})
        adapter = platform.adapter(parse_mode="Markdown")
        async with Runtime.open(echo_bot(), store=store(), adapters=[adapter]) as runtime:
            await quiet(runtime, lambda: len(bot.sent()) == 1)
            [row] = [row.record for row in runtime.outbox.list()]

        first, second = [call for call in bot.calls if call.method == "sendMessage"]
        assert first.fields.keys() - second.fields.keys() == {field}
        assert second.text == "status?"
        assert (row.attempts, row.degraded) == (1, {"message_thread_id": "thread"}.get(field, row.degraded))
        assert row.degraded in {"thread", "reply", "formatting"}


@pytest.mark.parametrize(
    ("text", "units"),
    [
        ("a" * 4095 + "\U0001f600", [4095, 2]),
        ("\U0001f600" * 5000, [4096, 4096, 1808]),
        ("a" * 4090 + "\U0001f468\u200d\U0001f469\u200d\U0001f467", [4090, 8]),
    ],
)
async def test_f29_length_is_counted_as_the_platform_does(text: str, units: list[int]) -> None:
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        ctx.reply(text)

    async with open_platform() as platform:
        platform.bot.say(5, "long")
        async with Runtime.open(topology, store=store(), adapters=[platform.adapter()]) as runtime:
            await quiet(runtime, lambda: len(platform.bot.sent()) == len(units))

        parts = [call.text or "" for call in platform.bot.sent()]
        assert [len(part.encode("utf-16-le")) // 2 for part in parts] == units
        assert "".join(parts) == text


async def test_f31_a_blocked_bot_asks_once_until_somebody_writes() -> None:
    async with open_platform() as platform:
        bot = platform.bot
        blocked = Fault(
            method="sendMessage",
            kind="refuse",
            times=1,
            code=403,
            description="Forbidden: bot was blocked by the user",
        )
        bot.add_fault(blocked)
        topology = Topology()

        @topology.on("chat.message")
        async def twice(ctx: Context, message: BusMessage) -> None:
            ctx.reply(message.payload.text)
            ctx.reply("again")

        bot.say(5, "hi")
        async with Runtime.open(topology, store=store(), adapters=[platform.adapter()]) as runtime:
            await quiet(runtime, lambda: len([one for one in bot.calls if one.chat == 5]) == 1)
            rows = [row.record for row in runtime.outbox.list()]
            bot.say(5, "back")
            await quiet(runtime, lambda: len(bot.sent()) == 2)

        assert [(row.state, row.errors[-1].code) for row in rows] == [
            (OutboxState.DEAD, Code.RECIPIENT_BLOCKED)
        ] * 2
        assert [call.text for call in bot.sent()] == ["back", "again"]


async def test_f31_a_token_that_is_refused_stops_the_channel_and_keeps_the_rows() -> None:
    async with open_platform() as platform:
        bot = platform.bot
        refused = Fault(method="sendMessage", kind="refuse", times=-1, code=401, description="Unauthorized")
        bot.add_fault(refused)
        for chat in (5, 6, 7):
            bot.say(chat, "hi")
        database = MemoryDatabase()
        adapter = platform.adapter()
        async with Runtime.open(echo_bot(), store=store(database), adapters=[adapter]) as runtime:
            with trio.fail_after(LIMIT_S):
                await runtime.wait_until(
                    lambda: runtime.status().channels["telegram"].is_stopped and runtime.is_quiet
                )
            assert runtime.health().state is HealthState.FAILING
            calls = len([one for one in bot.calls if one.method == "sendMessage"])
            assert {row.record.state for row in runtime.outbox.list()} == {OutboxState.READY}
        bot.forget_faults()
        assert calls <= 3
        async with Runtime.open(echo_bot(), store=store(database), adapters=[platform.adapter()]) as runtime:
            await quiet(runtime, lambda: len(bot.sent()) == 3)


async def test_another_bots_store_is_refused_and_adopted_on_purpose() -> None:
    database = MemoryDatabase()
    async with open_platform() as platform:
        platform.bot.say(5, "hi")
        async with Runtime.open(echo_bot(), store=store(database), adapters=[platform.adapter()]) as runtime:
            await quiet(runtime, lambda: len(platform.bot.sent()) == 1)
    other = Script(me={"id": 77, "is_bot": True})
    async with open_platform(other) as platform:
        platform.bot.say(5, "hello")
        with pytest.raises(BusError) as caught:
            async with Runtime.open(echo_bot(), store=store(database), adapters=[platform.adapter()]):
                pass
        assert error_code_of(caught.value) is Code.STORE_MISMATCH
        assert platform.bot.sent() == []
        adapter = platform.adapter(adopt_account=True)
        async with Runtime.open(echo_bot(), store=store(database), adapters=[adapter]) as runtime:
            # Its first message bears an id that the store knows, of the other bot's chat with the same user.
            platform.bot.say(5, "more")
            await quiet(runtime, lambda: "more" in [call.text for call in platform.bot.sent()])


async def test_other_lanes_than_the_stores_are_refused() -> None:
    database = MemoryDatabase()
    async with open_platform() as platform:
        platform.bot.say(5, "hi")
        async with Runtime.open(echo_bot(), store=store(database), adapters=[platform.adapter()]) as runtime:
            await quiet(runtime, lambda: len(platform.bot.sent()) == 1)
        with pytest.raises(BusError) as caught:
            adapter = platform.adapter(lanes="chat")
            async with Runtime.open(echo_bot(), store=store(database), adapters=[adapter]):
                pass

        assert error_code_of(caught.value) is Code.STORE_MISMATCH


async def test_a_web_hook_in_the_way_and_a_wrong_token_end_the_start_in_plain_words() -> None:
    async with open_platform() as platform:
        platform.bot.webhook_url = "https://bot.example"
        with pytest.raises(BusError) as caught:
            async with Runtime.open(echo_bot(), store=store(), adapters=[platform.adapter()]):
                pass
        assert "web hook is set" in str(caught.value)
        platform.bot.add_fault(Fault(method="getMe", kind="refuse", times=-1, code=401))
        with pytest.raises(BusError) as caught:
            async with Runtime.open(echo_bot(), store=store(), adapters=[platform.adapter()]):
                pass
        assert caught.value.code is Code.BAD_TOKEN
        assert samples.TOKEN not in str(caught.value)


async def test_buttons_edits_and_the_menu() -> None:
    topology = Topology()

    @topology.on("chat.message")
    async def ask(ctx: Context, said: BusMessage) -> None:
        if said.extensions.callback_data is None:
            keys = inline_keyboard([button("Yes", data="ok:1")])
            note = await ctx.send_now("ask", message("Sure?", keyboard=keys))
            ctx.reply(Edit(note, "Sure??"))
        else:
            ctx.ephemeral(answer_callback(said.extensions.event_id or "", "thanks"))
            ctx.reply("done")

    async with open_platform() as platform:
        bot = platform.bot
        adapter: Telegram = platform.adapter(commands=[("/start", "Begin")])
        async with Runtime.open(topology, store=store(), adapters=[adapter]) as runtime:
            bot.say(7000000001, "go")
            await quiet(runtime, lambda: "editMessageText" in [one.method for one in bot.calls])
            bot.push({"callback_query": samples.body_of(samples.CALLBACK, "callback_query")})
            await quiet(runtime, lambda: len(bot.sent()) == 2)
            with trio.fail_after(LIMIT_S):
                await runtime.wait_until(lambda: runtime.counters.get("ephemeral_done") == 1)

        by_method = {call.method: call.fields for call in bot.calls}
        assert by_method["setMyCommands"] == {"commands": [{"command": "start", "description": "Begin"}]}
        assert by_method["editMessageText"]["message_id"] == bot.sent()[0].message_id
        assert by_method["answerCallbackQuery"]["callback_query_id"] == "44000000000000001"


async def test_unknown_updates_are_parked_and_seen() -> None:
    async with open_platform() as platform:
        platform.bot.push({"poll": {"id": "p1", "question": "?"}})
        platform.bot.push({"of_2030": {"from": {"id": 5}}})
        platform.bot.say(5, "hi")
        async with Runtime.open(echo_bot(), store=store(), adapters=[platform.adapter()]) as runtime:
            await quiet(runtime, lambda: len(platform.bot.sent()) == 1)
            status = runtime.status()

        assert status.inbox[InboxStatus.PARKED] == 2
        assert status.inbox[InboxStatus.DONE] == 1


async def test_f07_an_album_is_as_many_messages_as_it_has_members() -> None:
    async with open_platform() as platform:
        for number, caption in enumerate(["before", "", "after"]):
            body = samples.body_of(samples.ALBUM) | {"message_id": 53 + number, "caption": caption}
            platform.bot.push({"message": body})
        seen: list[tuple[str, str | None]] = []
        topology = Topology()

        @topology.on("chat.message")
        async def note(ctx: Context, said: BusMessage) -> None:
            seen.append((said.payload.text, said.extensions.media_group_id))

        async with Runtime.open(topology, store=store(), adapters=[platform.adapter()]) as runtime:
            await quiet(runtime, lambda: len(seen) == 3)

        assert seen == [(text, "13579000000000001") for text in ("before", "", "after")]


def test_on_disk_is_no_token(tmp_path: Path) -> None:
    trio.run(answer_once, tmp_path / "bot.db")

    secret = samples.TOKEN.encode().partition(b":")[2]
    assert [one.name for one in tmp_path.iterdir() if secret in one.read_bytes()] == []


async def answer_once(path: Path) -> None:
    async with open_platform() as platform:
        platform.bot.say(5, "hi")
        async with Runtime.open(echo_bot(), store=path, adapters=[platform.adapter()]) as runtime:
            await quiet(runtime, lambda: len(platform.bot.sent()) == 1)
