"""Logging of a program: lines on standard error, JSON or for people; no text in them can act on the terminal.

A library leaves its host's logging alone: only `run` and the commands call this, and `run` only if the program has
not set structlog up itself.
"""

from __future__ import annotations

import json
import logging
import sys
from typing import Literal

import structlog
from structlog.typing import EventDict, WrappedLogger


def set_up_logs(
    *,
    level: int = logging.WARNING,
    drop: frozenset[str] = frozenset(),
    style: Literal["json", "lines", "none"] = "json",
) -> None:
    """Set the process's logging up.

    Args:
        level: The least level that is shown.
        style: One JSON object a line, or `time level event key=value …`; nothing at all where the caller tells all that
            went wrong in its own words.
        drop: Events that the caller shows in its own way.
    """

    def without(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        if style == "none" or event["event"] in drop:
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
            structlog.processors.JSONRenderer() if style == "json" else _as_line,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        # Who prints nothing need not be quick, and leaves loggers to whoever sets them up next.
        cache_logger_on_first_use=style != "none",
    )


def _as_line(_logger: WrappedLogger, _method: str, event: EventDict) -> str:
    words = [str(event.pop("timestamp")), f"{event.pop('level'):<7}", str(event.pop("event"))]
    # As JSON, so that no value can act on the terminal or look like another key.
    words += [f"{key}={json.dumps(value, default=repr)}" for key, value in event.items()]
    return " ".join(words)


__all__ = ["set_up_logs"]
