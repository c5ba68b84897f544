"""The far side of the Telegram channel for the kit, and a bot over the server of the tests."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import attrs

from shardline import BusMessage, Context, Topology
from shardline.adapters.base import RateLimits
from shardline.adapters.telegram import Telegram, Webhook
from shardline.adapters.telegram.address import Lanes
from shardline.adapters.telegram.calls import ParseMode, Quote
from shardline.adapters.telegram.sim.bot import SimBot
from shardline.adapters.telegram.sim.script import Fault, Script
from shardline.adapters.telegram.sim.server import SimServer, open_sim
from tests.adapters.telegram.samples import TOKEN

FREE = RateLimits()


@attrs.define
class TelegramPlatform:
    """People who write to one bot."""

    server: SimServer
    addresses: Sequence[str] = ("7001", "7002")
    opened: list[Telegram] = attrs.field(factory=list[Telegram])

    @property
    def bot(self) -> SimBot:
        return self.server.bot(TOKEN)

    def open(self) -> Telegram:
        adapter = Telegram(TOKEN, api_base=self.server.base, limits=FREE, start_wait_s=0)
        self.opened.append(adapter)
        return adapter

    def adapter(
        self,
        *,
        token: str = TOKEN,
        limits: RateLimits = FREE,
        lanes: Lanes = "topic",
        quote: Quote = "groups",
        parse_mode: ParseMode | None = None,
        adopt_account: bool = False,
        webhook: Webhook | None = None,
        commands: Sequence[tuple[str, str]] | None = None,
        start_wait_s: float = 5.0,
    ) -> Telegram:
        """One for a runtime; settings as of `Telegram`."""
        made = Telegram(
            token,
            api_base=self.server.base,
            limits=limits,
            lanes=lanes,
            quote=quote,
            parse_mode=parse_mode,
            adopt_account=adopt_account,
            webhook=webhook,
            commands=commands,
            start_wait_s=start_wait_s,
        )
        self.opened.append(made)
        return made

    async def say(self, address: str, text: str) -> None:
        self.bot.say(int(address), text)

    def delivered(self) -> Sequence[tuple[str, str]]:
        return [(str(call.chat), call.text or "") for call in self.bot.sent()]

    def cut(self) -> None:
        self.bot.add_fault(Fault(method="sendMessage", kind="drop", times=-1))


@asynccontextmanager
async def telegram_platform(folder: Path) -> AsyncGenerator[TelegramPlatform]:
    """For the kit."""
    async with open_platform() as platform:
        yield platform


@asynccontextmanager
async def open_platform(
    script: Script | None = None, *, kind: type[TelegramPlatform] = TelegramPlatform
) -> AsyncGenerator[TelegramPlatform]:
    """A server of its own."""
    async with open_sim(script) as server:
        platform = kind(server)
        try:
            yield platform
        finally:
            for adapter in platform.opened:
                await adapter.aclose()


def echo_bot() -> Topology:
    """Answers every message with its text."""
    topology = Topology()

    @topology.on("chat.message")
    async def echo(ctx: Context, message: BusMessage) -> None:
        if message.payload.text:
            ctx.reply(message.payload.text)

    return topology
