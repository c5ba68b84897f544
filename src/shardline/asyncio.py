"""A runtime inside a running asyncio program; handlers and channels may be asyncio coroutines."""

from .runtime.host.adapter import AsyncioAdapter, AsyncioEdge, asyncio_adapter
from .runtime.host.handler import AsyncioContext, AsyncioHandler, asyncio_handler
from .runtime.host.options import Options
from .runtime.host.runtime import AsyncioRuntime, open_runtime, runtime

__all__ = [
    "AsyncioAdapter",
    "AsyncioContext",
    "AsyncioEdge",
    "AsyncioHandler",
    "AsyncioRuntime",
    "Options",
    "asyncio_adapter",
    "asyncio_handler",
    "open_runtime",
    "runtime",
]
