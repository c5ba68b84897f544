"""A group of commands whose modules are loaded when they are needed."""

from __future__ import annotations

import errno
from importlib import import_module
from typing import cast

import click

from ...actors.errors import BusError
from ..exit_code import ExitCode
from .group import Group
from .problem import Problem
from .streams import set_up_streams

_PLACES = {
    "audit": "audit",
    "completion": "completion",
    "control": "control",
    "dlq": "dlq",
    "doctor": "doctor",
    "inbox": "inbox",
    "migrate": "migrate",
    "outbox": "outbox",
    "publish": "publish",
    "run": "runner",
    "settings": "settings",
    "status": "status",
    "telegram": "telegram",
    "telegram-sim": "telegram_sim",
    "timers": "timers",
}
"""Name of a command -> module of this folder; the command stands there as `command`."""


class LazyGroup(Group):
    """The root: it ends a `Problem`, a `BusError`, an `OSError` or a Ctrl-C as one line, without a traceback."""

    def invoke(self, ctx: click.Context) -> object:
        """Run the subcommand."""
        set_up_streams()
        try:
            result: object = super().invoke(ctx)
        except Problem as problem:
            problem.show()
            ctx.exit(problem.code)
        except BusError as error:
            Problem(str(error)).show()
            ctx.exit(ExitCode.FAILURE)
        except OSError as error:
            # A reader that went away is nobody to tell.
            if error.errno == errno.EPIPE:
                raise
            Problem(f"{error}; what was asked for may be done").show()
            ctx.exit(ExitCode.FAILURE)
        except KeyboardInterrupt:
            Problem("ended by Ctrl-C").show()
            ctx.exit(ExitCode.FAILURE)
        return result

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, sorted."""
        return sorted({*super().list_commands(ctx), *_PLACES})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load one."""
        place = _PLACES.get(cmd_name)
        if place is None:
            return super().get_command(ctx, cmd_name)
        module = import_module(f".{place}", __package__)
        return cast("click.Command", module.command)


__all__ = ["LazyGroup"]
