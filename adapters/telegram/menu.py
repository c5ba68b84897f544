"""The menu of `/`-commands: registered at the start, by no means at the price of reading."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...actors.errors import BusError, Code
from ...actors.plain import Plain
from .api import Api
from .courtesy import Courtesy
from .health import Reports
from .wire import Refusal


class Menu:
    """What the bot offers.

    Args:
        api: The server.
        commands: (name, description) pairs; with or without the slash.
        edge: Is told what goes wrong.
        chance: A number from 0 to 1, the jitter.
    """

    def __init__(
        self, api: Api, commands: Sequence[tuple[str, str]], edge: Reports, chance: Callable[[], float]
    ) -> None:
        menu: list[Plain] = [
            {"command": name.removeprefix("/"), "description": text} for name, text in commands
        ]
        self._edge = edge
        self._call = Courtesy(
            lambda: api.call("setMyCommands", {"commands": menu}),
            "the menu of commands is not set",
            edge,
            chance,
        )

    async def set_once(self) -> bool:
        """Try; whether there is nothing left to do.

        Raises:
            BusError: INVALID_MESSAGE, the commands can be none.
        """
        answer = await self._call.once()
        if isinstance(answer, Refusal):
            if answer.code == 400:
                raise BusError(Code.INVALID_MESSAGE, f"the commands are refused: {answer.description}")
            self._tell(answer)
        return answer is not None

    async def set(self) -> None:
        """Try until the server answers. A bot that reads by now goes on also if it refuses."""
        answer = await self._call.insist()
        if isinstance(answer, Refusal):
            self._tell(answer)

    def _tell(self, refusal: Refusal) -> None:
        # A server of one's own may not know the method; what can be none ends the next start.
        self._edge.report(
            "degraded",
            f"the menu of commands is refused with {refusal.code}",
            action="Correct the commands; the bot goes on.",
        )


__all__ = ["Menu"]
