"""Logging of a program: JSON lines on standard error, so that no text can act on the terminal.

A library leaves its host's logging alone: only `run` and the commands call this, and `run` only if the program has
not set structlog up itself.
"""

from __future__ import annotations

import logging
import sys

import structlog
from structlog.typing import EventDict, WrappedLogger


def set_up_logs(*, level: int = logging.WARNING, drop: frozenset[str] = frozenset()) -> None:
    """Set the process's logging up.

    Args:
        level: The least level that is shown.
        drop: Events that the caller shows in its own way.
    """

    def without(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        if event["event"] in drop:
            raise structlog.DropEvent
        return event

    structlog.configure(
        processors=[
            without,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            # Names and places of a traceback, never the values in it: those are messages and tokens.
            structlog.processors.ExceptionRenderer(
                structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
            ),
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )


__all__ = ["set_up_logs"]
