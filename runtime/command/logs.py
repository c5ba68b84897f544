"""Logging of the command: warnings and worse on standard error, as JSON, so that no text can act on the terminal."""

from __future__ import annotations

import logging
import sys

import structlog
from structlog.typing import EventDict, WrappedLogger


def set_up_logs(*, drop: frozenset[str] = frozenset()) -> None:
    """Set the process's logging up.

    Args:
        drop: Events that the command shows in its own way.
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
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )


__all__ = ["set_up_logs"]
