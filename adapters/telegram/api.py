"""Calls of the Bot API on trio: what left and what came back is told apart, and the token never shows.

Calls go over connections of our own (`connections.py`); files, and the way through a proxy, over those of httpx.
"""

from __future__ import annotations

import io
import math
import os
import stat
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Protocol, cast
from urllib.parse import urlsplit

import httpx
import trio

from ...actors.errors import BusError, Code
from ...actors.plain import Plain
from ...actors.strict_json import dumps
from ...actors.system import open_regular
from .bodies import Body, body_of, close_soon
from .calls import Upload
from .connections import CONNECT_S, CONNECTIONS, POOL_S, WHOLE_S, WRITE_S, Connections
from .failures import Broken, NotConnected
from .trace import Trace
from .wire import Answer, Refusal, read_answer

API_BASE: Final = "https://api.telegram.org"
READ_S: Final = 25.0

_JSON = {"content-type": "application/json"}
_UNSENT = (
    httpx.ConnectError,
    httpx.ConnectTimeout,
    httpx.PoolTimeout,
    httpx.ProxyError,
    httpx.UnsupportedProtocol,
)
"""Raised before the first byte of a request leaves."""
_PROXY_WANTS_A_NAME: Final = 407
_BROKEN = (httpx.HTTPError, httpx.StreamError, trio.TooSlowError)


class CallFailed(Exception):
    """A call had no complete answer. The text names what happened; it holds no address and no token."""


class NeverSent(CallFailed):
    """No byte of the request left."""


class NoAnswer(CallFailed):
    """Bytes may have left."""

    def __init__(self, reason: str, body: bytes = b"") -> None:
        super().__init__(reason)
        self.body = body


class Api(Protocol):
    """What the adapter calls."""

    async def call(
        self,
        method: str,
        fields: Mapping[str, Plain],
        *,
        upload: Upload | None = None,
        read_s: float = READ_S,
    ) -> Answer:
        """Make one call, once.

        Args:
            method: Of the Bot API.
            fields: Its parameters.
            upload: A file that goes along.
            read_s: How long to wait for each part of the answer, seconds; for all of it a minute more at most.
        Raises:
            NeverSent: Nothing left.
            NoAnswer: Something may have left, and no complete answer of the API came.
        """
        ...

    async def aclose(self) -> None:
        """Close the connections."""
        ...


class HttpApi:
    """One bot's connections to a server of the Bot API. Close it with `aclose`.

    The transport of httpx is used without its client, which would log every address, and the address has the token.

    Args:
        token: Of the bot.
        base: Of the server, `https://api.telegram.org` or one of your own.
        proxy: `http://…`, or `socks5://…` where the package socksio is there; None for none.
    Raises:
        BusError: BAD_TOKEN, the token can be none; INVALID_MESSAGE, no such base or proxy.
    """

    def __init__(self, token: str, *, base: str = API_BASE, proxy: str | None = None) -> None:
        check_base(base)
        if not is_token(token):
            raise BusError(
                Code.BAD_TOKEN, "this is no token of a bot: it looks like 123456:letters-and-digits"
            )
        self._token = token
        # Parsed once; a path is a copy of it.
        self._base = httpx.URL(base.rstrip("/"))
        self._prefix = f"{self._base.path.rstrip('/')}/bot{token}/"
        self._target = self._base.copy_with(path=self._prefix).raw_path
        tls = httpx.create_ssl_context()
        # Through a proxy a call over TLS gets a way first, and one without is handed over whole.
        has_proxy = proxy is not None and not proxy.startswith("socks")
        self._is_tunnelled = has_proxy and self._base.scheme == "https"
        self._is_handed_over = has_proxy and not self._is_tunnelled
        self._connections = None if proxy is not None else Connections(self._base, tls)
        self._pool = httpx.AsyncHTTPTransport(
            verify=tls,
            limits=httpx.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS),
            proxy=None if proxy is None else httpx.Proxy(check_proxy(proxy)),
        )

    def __repr__(self) -> str:
        return f"HttpApi({self._base.host})"

    async def aclose(self) -> None:
        """Close the connections; a later call opens new ones."""
        if self._connections is not None:
            await self._connections.aclose()
        await self._pool.aclose()

    async def call(
        self,
        method: str,
        fields: Mapping[str, Plain],
        *,
        upload: Upload | None = None,
        read_s: float = READ_S,
    ) -> Answer:
        """See `Api.call`."""
        if upload is None and self._connections is not None:
            return await self._ask(self._connections, method, fields, read_s)
        timeout = {"connect": CONNECT_S, "pool": POOL_S, "write": WRITE_S, "read": read_s}
        url = self._base.copy_with(path=self._prefix + method)
        if upload is None:
            body = dumps(dict(fields)).encode()
            return await self._answer(
                httpx.Request("POST", url, content=body, headers=_JSON, extensions={"timeout": timeout}),
                read_s,
            )
        with _opened(upload) as file:
            request = httpx.Request(
                "POST",
                url,
                data={name: _form_value(value) for name, value in fields.items()},
                files={upload.field: (upload.name or os.path.basename(upload.path), file)},
                extensions={"timeout": timeout},
            )
            return await self._answer(request, read_s)

    async def _ask(
        self, connections: Connections, method: str, fields: Mapping[str, Plain], read_s: float
    ) -> Answer:
        body = dumps(dict(fields)).encode()
        try:
            status, told = await connections.ask(self._target + method.encode(), body, read_s=read_s)
        except NotConnected as error:
            raise NeverSent(f"no connection: {error}") from None
        except Broken as error:
            raise NoAnswer(f"no complete answer: {error}") from None
        return self._read(status, told)

    async def _answer(self, request: httpx.Request, read_s: float) -> Answer:
        # `from None` throughout: an error of httpx has the request, whose address has the token.
        body, trace = b"", None
        # Both kinds of body that are made here can be run through without waiting.
        request.stream = Body(cast("Iterable[bytes]", request.stream), int(request.headers["content-length"]))
        try:
            with trio.fail_after(math.inf) as scope:
                trace = Trace(scope, read_s + WHOLE_S, is_tunnelled=self._is_tunnelled)
                request.extensions["trace"] = trace
                response = await self._pool.handle_async_request(request)
            try:
                with trio.fail_after(WHOLE_S):
                    body = await body_of(response.aiter_raw(), response.aclose)
            finally:
                await close_soon(response.aclose)
        except _UNSENT as error:
            raise NeverSent(f"no connection: {_name_of(error)}") from None
        except _BROKEN as error:
            if trace is not None and trace.is_unsent:
                raise NeverSent(f"no connection: {type(error).__name__}, the proxy opens no way") from None
            raise NoAnswer(f"no complete answer: {type(error).__name__}") from None
        if response.status_code == _PROXY_WANTS_A_NAME and self._is_handed_over:
            # It has passed nothing on; a server of the API has no such answer.
            raise NeverSent("no connection: the proxy answers 407, its name or password is not right")
        return self._read(response.status_code, body)

    def _read(self, status: int, body: bytes) -> Answer:
        answer = read_answer(status, body)
        if answer is None:
            raise NoAnswer(f"HTTP {status} and no answer of the API", body)
        if isinstance(answer, Refusal) and self._token in answer.description:
            return Refusal(code=answer.code, description=answer.description.replace(self._token, "…"))
        return answer


def is_token(token: str) -> bool:
    """Whether a text has the form of a token; it is not asked whether it is valid."""
    number, colon, secret = token.partition(":")
    return bool(
        colon
        and number.isascii()
        and number.isdigit()
        and secret.isascii()
        and secret.replace("-", "").replace("_", "").isalnum()
    )


def check_base(base: str) -> str:
    """Check the address of a server.

    Raises:
        BusError: INVALID_MESSAGE, it is no http or https address, or holds a name and password, a query or a fragment.
    """
    try:
        parts = urlsplit(base)
        is_good = (
            parts.scheme in {"http", "https"}
            and bool(parts.hostname)
            and "@" not in parts.netloc
            and not parts.query
            and not parts.fragment
            and _can_be_reached(httpx.URL(base))
        )
    except (ValueError, httpx.InvalidURL):
        is_good = False
    if not is_good:
        raise BusError(
            Code.INVALID_MESSAGE, "the base of the API is an address such as https://api.telegram.org"
        )
    return base


def check_proxy(proxy: str) -> httpx.URL:
    """Check the address of a proxy.

    Raises:
        BusError: INVALID_MESSAGE, it can be none. The text does not show it: it may hold a password.
    """
    url, is_good = httpx.URL(), False
    try:
        url = httpx.URL(proxy)
        is_good = url.scheme in {"http", "https", "socks5", "socks5h"} and _can_be_reached(url)
    except (ValueError, httpx.InvalidURL):
        pass
    if not is_good:
        raise BusError(Code.INVALID_MESSAGE, "the proxy is an address such as http://host:3128")
    if url.scheme.startswith("socks") and find_spec("socksio") is None:
        raise BusError(
            Code.INVALID_MESSAGE, "the proxy speaks SOCKS: install httpx[socks], or take an HTTP proxy"
        )
    return url


def _can_be_reached(url: httpx.URL) -> bool:
    """Whether the host is one that a resolver takes, and the port is one.

    Raises:
        ValueError: The host is none.
    """
    return bool(url.raw_host.decode("ascii").encode("idna")) and 0 < (url.port or 1) < 65_536


def _name_of(error: Exception) -> str:
    # The proxy's words stay out of it; its status says what to look at.
    status = str(error)[:3] if isinstance(error, httpx.ProxyError) else ""
    return type(error).__name__ + (f" {status}" if status.isascii() and status.isdigit() else "")


def _opened(upload: Upload) -> io.BufferedReader:
    try:
        number = open_regular(Path(upload.path), os.O_RDONLY, 0)
    except OSError as error:
        raise NeverSent(f"the file cannot be read: {type(error).__name__}") from None
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise NeverSent("the file is no regular file any more")
    return open(number, "rb")


def _form_value(value: Plain) -> str:
    return value if isinstance(value, str) else dumps(value)


__all__ = [
    "API_BASE",
    "CONNECT_S",
    "READ_S",
    "Api",
    "CallFailed",
    "HttpApi",
    "NeverSent",
    "NoAnswer",
    "check_base",
    "check_proxy",
    "is_token",
]
