"""A caller outside the bot: what publish answers, and how to branch on the code of a refusal."""

import trio

from shardline import BusError, BusMessage, Code, Direction, MessageEnvelope, Permanence, Runtime, Topology
from shardline.actors.identifiers import new_uuid7
from shardline.storage.memory import open_memory

topology = Topology()


@topology.on("chat.message")
async def think(_ctx: object, _message: BusMessage) -> None:
    await trio.sleep(0.2)


def said(text: str, key: str, *, chat: str = "web:ann", topic: str = "chat.message") -> BusMessage:
    own = new_uuid7()
    return BusMessage(
        id=own,
        direction=Direction.INBOUND,
        channel=None,
        topic=topic,
        conversation_key=chat,
        idempotency_key=key,
        correlation_id=own,
        payload=MessageEnvelope(message_id=key, text=text, sent_at="2026-01-01T08:00:00Z", session_id=own),
        created_at_us=1_767_254_400_000_000,
    )


async def call(runtime: Runtime, message: BusMessage) -> None:
    try:
        receipt = await runtime.publish_validated(message, timeout_s=0)
        print("on disk: duplicate", receipt.duplicate, "conflict", receipt.conflict)
    except BusError as error:
        match error.code:
            case Code.QUEUE_FULL | Code.BUS_CLOSED:
                print("again later:", error.code)
            case code if code.permanence is Permanence.PERMANENT:
                print("drop it:", code, "-", code.action)
            case _:
                raise


async def main() -> None:
    first = said("hello", "call-1")
    async with Runtime.open(topology, store=open_memory(), max_inflight=1) as runtime:
        await call(runtime, first)
        await call(runtime, said("too soon", "call-2", chat="web:bob"))
        await runtime.wait_drained()
        await call(runtime, first)
        await call(runtime, said("other words", "call-1"))
        await call(runtime, said("hello", "call-3", topic="chat.unheard-of"))
    await call(runtime, said("anyone?", "call-4"))


if __name__ == "__main__":
    trio.run(main)
