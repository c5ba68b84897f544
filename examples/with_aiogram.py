"""A runtime beside aiogram: its Dispatcher reads, its Bot sends, the runtime keeps and orders."""

import asyncio
import tempfile

import structlog
from aiogram import Bot, Dispatcher
from aiogram.exceptions import TelegramBadRequest, TelegramForbiddenError
from aiogram.types import Message, Update
from offline import aio, update_of

from shardline import BusMessage, Code, Topology
from shardline.adapters.base import ChannelCaps, Inbound, NotSent, Outbound, SendOutcome, Sent
from shardline.asyncio import AsyncioContext, AsyncioEdge, asyncio_adapter, asyncio_handler, runtime


async def answer(ctx: AsyncioContext, message: BusMessage) -> None:
    ctx.reply(await ctx.step("model", lambda: asyncio.sleep(0.01, message.payload.text.upper())))


class Telegram:
    name, prefix, caps = "telegram", "tg", ChannelCaps(unit="utf16")

    def __init__(self, bot: Bot) -> None:
        self.bot = bot

    async def run(self, edge: AsyncioEdge) -> None:
        self.edge = edge
        edge.started()
        await asyncio.Event().wait()  # nothing to read: the Dispatcher calls `take`

    async def take(self, said: Message) -> None:
        if said.text:
            name, chat = f"{said.chat.id}:{said.message_id}", str(said.chat.id)
            await self.edge.accept(Inbound(platform_message_id=name, address=chat, text=said.text))

    async def send(self, out: Outbound) -> SendOutcome:
        try:
            return Sent(str((await self.bot.send_message(out.address, out.text)).message_id))
        except (TelegramBadRequest, TelegramForbiddenError) as error:  # else: uncertain
            return NotSent(Code.CONTENT_REFUSED, Code.CONTENT_REFUSED.permanence, text=str(error))


async def main(store: str) -> None:
    topology = Topology()
    topology.on("chat.message")(asyncio_handler(answer))
    bot, dispatcher = Bot("1:x", session=aio.Session()), Dispatcher()
    channel = Telegram(bot)
    dispatcher.message.register(channel.take)
    async with runtime(topology, store=store, adapters=[asyncio_adapter(channel)]) as running:
        for number, text in ((1, "hi"), (2, "there"), (2, "there")):
            await dispatcher.feed_update(bot, Update.model_validate(update_of(number, text)))
        await running.wait_quiet()


if __name__ == "__main__":
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger("warning"))
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(f"{folder}/bot.db"))
