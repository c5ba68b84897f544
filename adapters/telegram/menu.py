"""The menu of `/`-commands: registered at the start, by no means at the price of reading."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...actors.errors import BusError, Code
from ...actors.plain import Plain
from ..base import Edge
from .api import Api
from .courtesy import Courtesy
from .wire import Answer, Refusal


class Menu:
    """What the bot offers.

    Args:
        api: The server.
        commands: (name, description) pairs; with or without the slash.
        edge: Is told what goes wrong.
        chance: A number from 0 to 1, the jitter.
    """

    def __init__(
        self, api: Api, commands: Sequence[tuple[str, str]], edge: Edge, chance: Callable[[], float]
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
        return self._judge(await self._call.once())

    async def set(self) -> None:
        """Try until the server answers.

        Raises:
            BusError: INVALID_MESSAGE, the commands can be none.
        """
        self._judge(await self._call.insist())

    def _judge(self, answer: Answer | None) -> bool:
        if isinstance(answer, Refusal) and answer.code == 400:
            raise BusError(Code.INVALID_MESSAGE, f"the commands are refused: {answer.description}")
        if isinstance(answer, Refusal):
            # A server of one's own may not know the method.
            self._edge.report("degraded", f"the menu of commands is refused with {answer.code}")
        return answer is not None


__all__ = ["Menu"]
