"""A runtime beside python-telegram-bot: its Application reads, its bot sends, the runtime keeps and orders."""

import asyncio
import tempfile

import structlog
from offline import ptb, update_of
from telegram import Bot, Update
from telegram.error import BadRequest, Forbidden
from telegram.ext import ApplicationBuilder, TypeHandler

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
        await asyncio.Event().wait()  # nothing to read: the Application calls `take`

    async def take(self, update: Update, _: object) -> None:
        if (said := update.message) is not None and said.text:
            name, chat = f"{said.chat_id}:{said.message_id}", str(said.chat_id)
            await self.edge.accept(Inbound(platform_message_id=name, address=chat, text=said.text))

    async def send(self, out: Outbound) -> SendOutcome:
        try:
            return Sent(str((await self.bot.send_message(out.address, out.text)).message_id))
        except (BadRequest, Forbidden) as error:  # whatever else is raised leaves the send uncertain
            return NotSent(Code.CONTENT_REFUSED, Code.CONTENT_REFUSED.permanence, text=str(error))


async def main(store: str) -> None:
    topology = Topology()
    topology.on("chat.message")(asyncio_handler(answer))
    app = ApplicationBuilder().token("1:x").request(ptb.Requests()).updater(None).build()
    channel = Telegram(app.bot)
    app.add_handler(TypeHandler(Update, channel.take))
    async with app, runtime(topology, store=store, adapters=[asyncio_adapter(channel)]) as bot:
        for number, text in ((1, "hi"), (2, "there"), (2, "there")):
            await app.process_update(Update.de_json(update_of(number, text), app.bot))
        await bot.wait_quiet()


if __name__ == "__main__":
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger("warning"))
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(f"{folder}/bot.db"))
