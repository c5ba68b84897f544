"""The server of the tests: HTTP/1.1 on a socket, so that it can also close, stall and answer by halves."""

from __future__ import annotations

import email.parser
import email.policy
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final, cast

import trio

from ....actors.errors import BusError
from ....actors.plain import Plain
from ....actors.strict_json import dumps, loads
from ..fields import Object, as_object, text_in
from .bot import SimBot, SimCall, SimRefusal
from .connection import MAX_BODY_BYTES, Closed, Request, SimConnection
from .hook import call_hook, hook_of
from .script import Fault, Script, script_of

_TARGET = re.compile(r"/bot([^/]+)/([A-Za-z]+)")
_NUMBERS: Final = frozenset({"chat_id", "message_thread_id", "direct_messages_topic_id"})
_HTML: Final = b"<html><body><h1>502 Bad Gateway</h1></body></html>"


class SimServer:
    """Bots by their tokens.

    Args:
        script: Of every bot that calls; each has a queue of its own.
    """

    def __init__(self, script: Script | None = None) -> None:
        self.script = script or Script()
        self.bots: dict[str, SimBot] = {}
        self.port = 0
        self.refuses_connections = False
        self.hooks: trio.Nursery | None = None
        """Where web hooks are called; None, they are not."""
        self._hooks: dict[str, trio.CancelScope] = {}

    @property
    def base(self) -> str:
        """The address for `api_base`."""
        return f"http://127.0.0.1:{self.port}"

    def bot(self, token: str) -> SimBot:
        """The bot of a token, made at its first mention."""
        known = self.bots.get(token)
        if known is None:
            known = self.bots[token] = SimBot(self.script)
        return known

    async def serve(self, stream: trio.SocketStream) -> None:
        """Serve one connection."""
        if self.refuses_connections:
            await stream.aclose()
            return
        connection = SimConnection(stream)
        try:
            async with stream:
                while (request := await connection.read_request()) is not None:
                    await self._answer(connection, request)
                    if request.is_last:
                        return
        except (Closed, trio.BrokenResourceError, trio.ClosedResourceError):
            return

    async def _answer(self, connection: SimConnection, request: Request) -> None:
        target = request.target
        if target.startswith("/sim/"):
            status, answer = await self._control(target, request.body)
            await connection.write(status, dumps(answer).encode())
            return
        found = _TARGET.fullmatch(target)
        if found is None:
            await connection.write(404, _refusal(SimRefusal(404, "Not Found")))
            return
        bot, method = self.bot(found[1]), found[2]
        fields = _fields(request.kind, request.body)
        if method == "getMe":
            bot.renew()
        fault = bot.fault_of(method, fields)
        if fault is not None and fault.kind in {"refuse", "drop", "html"}:
            bot.note(method, fields, fault, None)
            await _go_wrong(connection, fault)
            return
        if method == "getUpdates":
            page = await bot.poll(fields)
            if isinstance(page, SimRefusal):
                await connection.write(page.code, _refusal(page))
                return
            result: Plain = [dict(one) for one in page]
        else:
            result, number = bot.deliver(method, fields)
            if method in {"setWebhook", "deleteWebhook"}:
                self._set_hook(found[1], text_in(fields, "secret_token") or "")
            bot.note(method, fields, fault, number)
        body = dumps({"ok": True, "result": result}).encode()
        if fault is None:
            await connection.write(200, body)
        else:
            await _answer_badly(connection, fault, body)

    def _set_hook(self, token: str, secret: str) -> None:
        if token in self._hooks:
            self._hooks.pop(token).cancel()
        hook = hook_of(self.bot(token).webhook_url)
        if hook is None or self.hooks is None:
            return
        scope = self._hooks[token] = trio.CancelScope()

        async def call() -> None:
            with scope:
                await call_hook(self.bot(token), hook, secret)

        self.hooks.start_soon(call)

    async def _control(self, target: str, body: bytes) -> tuple[int, Plain]:
        """What tests in another process ask for: `/sim/<token>/say|push|fault|calm|wait|calls`."""
        _, _, token, verb = [*target.split("/"), "", ""][:4]
        bot = self.bot(token)
        told: Object | None = as_object(loads(body)) if body else dict[str, Plain]()
        match verb, told:
            case "say", {"chat": int(chat), "text": str(text)}:
                return 200, {"update_id": bot.say(chat, text)}
            case "push", dict():
                return 200, {"update_id": bot.push(told)}
            case "fault", dict():
                for fault in script_of({"faults": [dict(told)]}).faults:
                    bot.add_fault(fault)
                return 200, {}
            case "calm", _:
                bot.forget_faults()
                return 200, {}
            case "wait", {"sent": int(count)}:
                await bot.wait_sent(count)
                return 200, {}
            case "wait", {"confirmed": True}:
                await bot.wait_confirmed()
                return 200, {}
            case "calls", _:
                return 200, {
                    "waiting": bot.waiting,
                    "polls": bot.polls,
                    "served_at_s": {str(number): at_s for number, at_s in bot.served_at_s.items()},
                    "calls": [shown(one) for one in bot.calls],
                }
            case _:
                return 404, {}


@asynccontextmanager
async def open_sim(script: Script | None = None, *, port: int = 0) -> AsyncGenerator[SimServer]:
    """Serve in this program, at a free port, while the block runs."""
    server = SimServer(script)
    # Before the nursery, which would wrap the error of a port that is taken into a group.
    listeners = await trio.open_tcp_listeners(port, host="127.0.0.1")
    async with trio.open_nursery() as nursery:
        server.hooks = nursery
        nursery.start_soon(trio.serve_listeners, server.serve, listeners)
        server.port = cast("tuple[str, int]", listeners[0].socket.getsockname())[1]
        yield server
        nursery.cancel_scope.cancel()


async def _go_wrong(connection: SimConnection, fault: Fault) -> None:
    if fault.kind == "drop":
        raise Closed
    if fault.kind == "html":
        await connection.write(fault.code, _HTML, kind=b"text/html")
        return
    await connection.write(fault.code, _refusal(SimRefusal(fault.code, fault.description, fault.parameters)))


async def _answer_badly(connection: SimConnection, fault: Fault, body: bytes) -> None:
    match fault.kind:
        case "half":
            await connection.write_half(body)
        case "hang":
            await trio.sleep_forever()
        case "slow":
            await trio.sleep(fault.seconds)
            await connection.write(200, body)
        case _:
            raise Closed


def _refusal(refusal: SimRefusal) -> bytes:
    told: dict[str, Plain] = {"ok": False, "error_code": refusal.code, "description": refusal.description}
    if refusal.parameters is not None:
        told["parameters"] = dict(refusal.parameters)
    return dumps(told).encode()


def _fields(kind: str, body: bytes) -> Object:
    if kind.startswith("multipart/form-data"):
        return _form(kind, body)
    try:
        return as_object(loads(body, limit_bytes=MAX_BODY_BYTES)) or {}
    except BusError:
        return {}


def _form(kind: str, body: bytes) -> Object:
    head = f"Content-Type: {kind}\r\n\r\n".encode()
    parsed = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(head + body)
    fields: dict[str, Plain] = {}
    for part in parsed.iter_parts():
        name = cast("str", part.get_param("name", header="content-disposition"))
        content = cast("bytes", part.get_payload(decode=True))
        file = part.get_filename()
        if file is not None:
            fields[name] = f"file:{file}:{len(content)}"
            continue
        text = content.decode()
        try:
            fields[name] = int(text) if name in _NUMBERS else text
        except ValueError:
            fields[name] = text
    return fields


def shown(call: SimCall) -> dict[str, Plain]:
    """A call as a record."""
    return {
        "number": call.number,
        "method": call.method,
        "fields": dict(call.fields),
        "at_s": call.at_s,
        "message_id": call.message_id,
        "fault": call.fault,
    }


__all__ = ["SimServer", "open_sim", "shown"]
