"""The Telegram channel: reads by polling or by a web hook, and sends."""

from __future__ import annotations

import os
import random
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress
from typing import Final, Self

import attrs
import trio

from ...actors.child import crash_in
from ...actors.content import Action
from ...actors.errors import BusError, Code, Permanence
from ...runtime.channel import ChannelCaps, Edge, NotSent, Outbound, SendOutcome, UncertainPolicy
from ...runtime.rates import Chat, RateLimits
from .address import Lanes, chat_of, read_address
from .api import API_BASE, Api, CallFailed, HttpApi, NeverSent, check_base, is_token
from .buttons import ANSWER, Buttons
from .calls import Call, ParseMode, Quote, call_of, call_of_action
from .health import Health
from .identity import ask_me, ask_webhook, check_account
from .intake import Intake, Tally
from .limits import BUTTONS_S, COURTESY_S, LIMITS, POLL_S, SENDS, Floods, poll_pause_s
from .menu import Menu
from .outcomes import outcome_of, outcome_unknown, outcome_unsent
from .poller import Poller
from .update import ALLOWED_UPDATES, Me, Reading
from .webhook import Webhook, serve_webhook
from .wire import Refusal

TOKEN_VARIABLE: Final = "SHARDLINE_TELEGRAM_TOKEN"  # noqa: S105 (the name of a variable)
MAX_TEXT: Final = 4_096
_PATIENCE_S: Final = 20.0
"""How long a start waits for a server that does not answer, before it counts as started and goes on trying."""
_SEND_S: Final = 90.0
_MOST_BUTTONS_S: Final = 120.0
"""The platform takes no answer to a button that is much older."""


class Telegram:
    """A bot of Telegram as a channel.

    Args:
        token: From @BotFather. It shows in no log line, error, `repr` or store.
        api_base: The server of the Bot API.
        proxy: `http://…`; None for none.
        lanes: What one conversation is: each topic of a forum (`topic`) or the whole chat. Fixed for the store's life.
        quote: Which answers quote the message they answer: in groups and channels, always, or never.
        parse_mode: Of texts, captions and edits; None sends them as they are.
        allowed_updates: Kinds of updates to ask for; None keeps what the server remembers.
        accepts_bots: Messages of other bots count too.
        poll_s: How long a poll stays open, seconds, 1 to 50.
        limits: How many sends the platform takes.
        webhook: Be called, instead of polling.
        commands: (name, description) pairs for the menu; None leaves the menu as it is.
        answer_buttons_s: How long a handler may take to answer a button by itself, seconds; then its waiting sign is
            ended for it. None leaves it to the handler.
        adopt_account: Another bot than the store's takes it over.
        start_wait_s: How long a send waits for `run` to find out whose store it is; 0 for sends without a `run`.
        on_uncertain, block_on_uncertain: As of `ChannelCaps`.
    Raises:
        BusError: BAD_TOKEN, INVALID_MESSAGE, a setting cannot be one.
    """

    name = "telegram"
    prefix = "tg"

    def __init__(
        self,
        token: str,
        *,
        api_base: str = API_BASE,
        proxy: str | None = None,
        lanes: Lanes = "topic",
        quote: Quote = "groups",
        parse_mode: ParseMode | None = None,
        allowed_updates: Sequence[str] | None = ALLOWED_UPDATES,
        accepts_bots: bool = False,
        poll_s: int = POLL_S,
        limits: RateLimits = LIMITS,
        webhook: Webhook | None = None,
        commands: Sequence[tuple[str, str]] | None = None,
        answer_buttons_s: float | None = BUTTONS_S,
        adopt_account: bool = False,
        start_wait_s: float = 5.0,
        on_uncertain: UncertainPolicy = "park",
        block_on_uncertain: bool = False,
    ) -> None:
        if not is_token(token):
            raise BusError(
                Code.BAD_TOKEN, "this is no token of a bot: it looks like 123456:letters-and-digits"
            )
        if not 1 <= poll_s <= 50:
            raise BusError(Code.INVALID_MESSAGE, "poll_s must be from 1 to 50", field="poll_s", value=poll_s)
        if lanes not in {"topic", "chat"}:
            raise BusError(Code.INVALID_MESSAGE, 'lanes is "topic" or "chat"', field="lanes", value=lanes)
        if answer_buttons_s is not None and not 0 <= answer_buttons_s <= _MOST_BUTTONS_S:
            raise BusError(
                Code.INVALID_MESSAGE,
                f"answer_buttons_s is from 0 to {_MOST_BUTTONS_S:g}, or None",
                field="answer_buttons_s",
                value=answer_buttons_s,
            )
        check_base(api_base)
        self.caps = ChannelCaps(
            max_text=MAX_TEXT,
            unit="utf16",
            linear=webhook is None,
            limits=limits,
            concurrency=SENDS,
            degradations=("thread", "reply", "formatting"),
            contents=("text", "media", "edit", "delete", "action"),
            send_timeout_s=_SEND_S,
            on_uncertain=on_uncertain,
            block_on_uncertain=block_on_uncertain,
        )
        self.tally = Tally()
        self._api: Api = HttpApi(token, base=api_base, proxy=proxy)
        self._lanes: Lanes = lanes
        self._quote: Quote = quote
        self._parse_mode: ParseMode | None = parse_mode
        self._allowed = allowed_updates
        self._accepts_bots = accepts_bots
        self._poll_s = poll_s
        self._webhook = webhook
        self._commands = commands
        self.buttons = Buttons(self._api, answer_buttons_s)
        self._adopts = adopt_account
        self._start_wait_s = start_wait_s
        self._floods = Floods()
        self._is_known = start_wait_s == 0
        self._known = trio.Event()
        self._random = random.Random()

    def __repr__(self) -> str:
        return f"Telegram({self._api!r})"

    @classmethod
    def from_env(
        cls, variable: str = TOKEN_VARIABLE, *, api_base: str = API_BASE, proxy: str | None = None
    ) -> Self:
        """Take the token from the environment.

        Raises:
            BusError: BAD_TOKEN, it is not there, or is none.
        """
        token = os.environ.get(variable)
        if not token:
            raise BusError(Code.BAD_TOKEN, f"set the environment variable {variable} to the bot's token")
        return cls(token.strip(), api_base=api_base, proxy=proxy)

    @classmethod
    def from_settings(cls, settings: Mapping[str, str]) -> Self:
        """Make it of settings: `token`, and `api_base` and `proxy` if they are there."""
        return cls(
            settings["token"].strip(),
            api_base=settings.get("api_base", API_BASE),
            proxy=settings.get("proxy"),
        )

    def chat_of(self, address: str) -> Chat:
        """The chat of a conversation: topics of a group share its rate."""
        return chat_of(address)

    async def run(self, edge: Edge, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Find out who the bot is and whose the store; then read until cancelled.

        Raises:
            BusError: BAD_TOKEN; STORE_MISMATCH; ADAPTER_FAILED, a web hook is set and the bot polls; what `accept`
                raises.
        """
        failure: Exception | None = None
        if not self._is_known and self._known.is_set():
            # The start before came to nothing; of this one a send may wait to hear.
            self._known = trio.Event()
        try:
            me = await self._meet(edge, task_status)
            facts = check_account(edge, me, self._lanes, adopts=self._adopts)
            how = Reading(me=me, lanes=self._lanes, accepts_bots=self._accepts_bots)
            await self._read(edge, Intake(edge, how, facts, self.tally, self.buttons), task_status)
        except ExceptionGroup as group:
            # Of the tasks beside the reading one; whoever runs this knows codes, and no groups.
            failure = crash_in(group) or group
        finally:
            # No send waits for what nobody finds out any more, nor one that begins before the next start.
            self._known.set()
        if failure is not None:
            raise failure

    async def _read(self, edge: Edge, intake: Intake, task_status: trio.TaskStatus[None]) -> None:
        chance = self._random.random
        health = Health(edge)
        # What nothing can be read through is worse than what the bot goes on without.
        reading = health.part()
        async with trio.open_nursery() as nursery:
            if self._webhook is None:
                await self._check_webhook()
            if self._commands is not None:
                menu = Menu(self._api, self._commands, health.part(), chance)
                if not await menu.set_once():
                    nursery.start_soon(menu.set)
            await nursery.start(self.buttons.run)
            self._is_known = True
            self._known.set()
            if self._webhook is None:
                task_status.started()
                await Poller(
                    self._api, reading, intake, allowed=self._allowed, poll_s=self._poll_s, chance=chance
                ).run()
            else:
                await serve_webhook(
                    self._webhook,
                    self._api,
                    reading,
                    intake,
                    self._allowed,
                    chance=chance,
                    task_status=task_status,
                )

    async def send(self, out: Outbound) -> SendOutcome:
        """Make the one call that a send is."""
        if not self._is_known and not await self._wait_known():
            # No attempt: nobody knows yet whether this is the bot whose rows these are.
            return NotSent(
                Code.RATE_LIMITED,
                Permanence.TRANSIENT,
                retry_after_s=1.0,
                scope="bot",
                text="the server has not told yet who the bot is",
            )
        call = call_of(out, quote=self._quote, parse_mode=self._parse_mode)
        if isinstance(call, NotSent):
            await trio.lowlevel.checkpoint()
            return call
        outcome = await self._call(call)
        if isinstance(outcome, NotSent) and outcome.code is Code.RATE_LIMITED:
            self._floods = self._floods.after(chat_of(out.address).id, trio.current_time())
            if self._floods.is_bots:
                return attrs.evolve(outcome, scope="bot")
        return outcome

    async def act(self, address: str, action: Action) -> None:
        """Make an ephemeral call: `typing`, `answer_callback`, or any method."""
        read = read_address(address)
        if read is None:
            raise BusError(Code.RECIPIENT_NOT_FOUND, "no chat of Telegram")
        call = call_of_action(action, read)
        if isinstance(call, NotSent):
            raise BusError(call.code, call.text)
        self._note(call)
        answer = await self._api.call(call.method, call.fields)
        if isinstance(answer, Refusal):
            raise BusError(Code.DELIVERY_PERMANENT, answer.description)

    async def aclose(self) -> None:
        """Close the connections, when neither `run` nor `send` goes on. The end of the process does it too."""
        await self._api.aclose()

    def _note(self, call: Call) -> None:
        if call.method == ANSWER:
            self.buttons.forget(call.fields.get("callback_query_id"))

    async def _call(self, call: Call) -> SendOutcome:
        self._note(call)
        try:
            answer = await self._api.call(call.method, call.fields, upload=call.upload)
        except NeverSent as error:
            return outcome_unsent(str(error))
        except CallFailed as error:
            return outcome_unknown(str(error), is_repeatable=call.is_repeatable)
        return outcome_of(answer, call.address)

    async def _wait_known(self) -> bool:
        """Wait for `run` to find out whose store it is; ends with `run` at the latest, and with nothing else.

        Of a send that is cancelled nobody knows whether it has left; of one that waits here everybody does. So a
        runtime that ends does not cut it off: `run` is cancelled with it, which ends the wait.
        """
        with trio.CancelScope(deadline=trio.current_time() + self._start_wait_s, shield=True):
            await self._known.wait()
        return self._is_known

    async def _meet(self, edge: Edge, task_status: trio.TaskStatus[None]) -> Me:
        """Ask who the bot is until the server tells."""
        failures = 0
        until_s = trio.current_time() + _PATIENCE_S
        has_started = False
        while True:
            try:
                answer = await ask_me(self._api)
                why = "" if isinstance(answer, Me) else f"getMe is refused with {answer.code}"
            except CallFailed as error:
                answer, why = None, str(error)
            if isinstance(answer, Me):
                edge.report("ok")
                return answer
            edge.report("failing", why, action="Look at the network, the proxy and the API's base.")
            if not has_started and trio.current_time() >= until_s and self._webhook is None:
                # What is on disk is handled meanwhile; a bot needs no network to start.
                task_status.started()
                task_status, has_started = trio.TASK_STATUS_IGNORED, True
            failures += 1
            wait_s = poll_pause_s(failures, self._random.random())
            if isinstance(answer, Refusal) and answer.retry_after_s is not None:
                wait_s = max(wait_s, float(answer.retry_after_s))
            await trio.sleep(wait_s)

    async def _check_webhook(self) -> None:
        url = await _told(ask_webhook(self._api))
        if url:
            raise BusError(
                Code.ADAPTER_FAILED,
                "a web hook is set for this token, so polling would get nothing: delete it (the method deleteWebhook),"
                " or run with webhook=",
            )


async def _told(asked: Awaitable[str | None]) -> str | None:
    """What a question of no importance to the start was answered; None where it was not."""
    told: str | None = None
    with trio.move_on_after(COURTESY_S), suppress(CallFailed):
        told = await asked
    return told


__all__ = ["MAX_TEXT", "TOKEN_VARIABLE", "Telegram"]
