"""`/`-commands: taken out of a text, and to whom they are said. Pure."""

from __future__ import annotations

import re

import attrs

_COMMAND = re.compile(r"/([A-Za-z0-9_]{1,32})(?:@([A-Za-z0-9_]{3,32}))?(?:\s+(.*))?", re.DOTALL)


@attrs.frozen
class Command:
    """A text that begins with a command.

    Attributes:
        name: Without the slash, in small letters.
        rest: What stands behind it, without outer white space.
        bot: The bot that it names, without the @; None where it names none.
    """

    name: str
    rest: str = ""
    bot: str | None = None

    def is_for(self, username: str) -> bool:
        """Whether the bot of this name is meant: in a group a command may name another."""
        return self.bot is None or self.bot.casefold() == username.casefold()


def command_in(text: str) -> Command | None:
    """Read a command; None where the text begins with none.

    >>> command_in("/start@Ada_bot  now ")
    Command(name='start', rest='now', bot='Ada_bot')
    >>> command_in("and /start") is None
    True
    """
    found = _COMMAND.fullmatch(text)
    if found is None:
        return None
    return Command(found[1].lower(), (found[3] or "").strip(), found[2])


__all__ = ["Command", "command_in"]
