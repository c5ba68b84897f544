"""What the server of the tests is to do, as a JSON document: what people say, and how calls go wrong."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal, cast, get_args

import attrs

from ....actors.errors import BusError, Code
from ....actors.plain import Plain
from ....actors.strict_json import loads
from ..fields import Object, as_object, integer_in, list_in, object_in, text_in

FaultKind = Literal["refuse", "drop", "drop_after", "hang", "half", "html", "slow"]
"""How one call goes wrong.

refuse: a complete error answer. drop: closed before the call is done. drop_after: done, and closed without an answer.
hang: done, and never answered. half: done, and half an answer. html: not done, HTML of a proxy. slow: answered late.
"""
KINDS: Final[tuple[FaultKind, ...]] = get_args(FaultKind)
_MAX_BYTES: Final = 64 * 1024 * 1024
_MOST_PER_S: Final = 100_000


@attrs.define(kw_only=True)
class Fault:
    """One way in which calls go wrong.

    Attributes:
        method: Of the Bot API; `*` is any.
        kind: How.
        times: For how many calls; less than 0 is for ever.
        after: So many calls that match go well first.
        chat: Only calls to this chat.
        text: Only calls whose text is this one.
        code, description, parameters: Of the answer of a `refuse`; `code` is the HTTP status of an `html`.
        seconds: Of a `slow`.
    """

    method: str
    kind: FaultKind
    times: int = 1
    after: int = 0
    chat: int | None = None
    text: str | None = None
    code: int = 500
    description: str = "Internal Server Error: restart"
    parameters: Object | None = None
    seconds: float = 1.0

    def matches(self, method: str, chat: int | None, text: str | None) -> bool:
        """Whether it is about this call; counts down what it passes over and what it takes."""
        if self.times == 0 or self.method not in {"*", method}:
            return False
        if (self.chat is not None and self.chat != chat) or (self.text is not None and self.text != text):
            return False
        if self.after > 0:
            self.after -= 1
            return False
        self.times -= 1
        return True


@attrs.frozen(kw_only=True)
class Script:
    """The whole of it.

    Attributes:
        updates: What is in the queue from the start; where `update_id` is left out it is given.
        faults: In the order they are tried; the first that matches a call is taken.
        per_s: So many updates a second come, from the first poll on; 0, all of them are there from the start.
        keeps: Confirmed updates come again with every new process, as a server that forgets would do it.
        me: What getMe tells.
    """

    updates: Sequence[Object] = ()
    faults: Sequence[Fault] = ()
    per_s: float = 0.0
    keeps: bool = False
    me: Object = attrs.field(
        factory=lambda: cast(
            "Object", {"id": 4200, "is_bot": True, "first_name": "Sim", "username": "sim_bot"}
        )
    )


def load_script(path: Path) -> Script:
    """Read a script.

    Raises:
        BusError: INVALID_MESSAGE, it is none, with where; TOO_LARGE.
        OSError: The file cannot be read.
    """
    return script_of(loads(path.read_bytes(), limit_bytes=_MAX_BYTES))


def script_of(document: Plain) -> Script:
    """Take a script out of a JSON value.

    `{"updates": […], "messages": [{"chat": 1, "text": "hi", "times": 3}], "faults": […], "per_s": 0, "keeps": false,
    "me": {…}}`

    Raises:
        BusError: INVALID_MESSAGE, with where.
    """
    source = as_object(document)
    if source is None:
        raise _wrong("the script", "is no object")
    unknown = sorted(source.keys() - {"updates", "messages", "faults", "per_s", "keeps", "me"})
    if unknown:
        raise _wrong(unknown[0], "is no part of a script: updates, messages, faults, per_s, keeps, me")
    updates = [_object(one, f"updates[{n}]") for n, one in enumerate(list_in(source, "updates"))]
    for n, one in enumerate(list_in(source, "messages")):
        updates += _messages(_object(one, f"messages[{n}]"), f"messages[{n}]", len(updates))
    faults = [
        _fault(_object(one, f"faults[{n}]"), f"faults[{n}]")
        for n, one in enumerate(list_in(source, "faults"))
    ]
    per_s = source.get("per_s", 0)
    if not isinstance(per_s, int | float) or not 0 <= per_s <= _MOST_PER_S:
        raise _wrong("per_s", f"is a number from 0 to {_MOST_PER_S}")
    script = Script(updates=updates, faults=faults, per_s=float(per_s), keeps=source.get("keeps") is True)
    me = object_in(source, "me")
    return script if me is None else attrs.evolve(script, me=me)


def message_update(chat: int, text: str, number: int, *, sender: int | None = None) -> dict[str, Plain]:
    """An update with a message, as the platform makes it; `number` counts the chat's messages."""
    person = abs(chat) if sender is None else sender
    kind = "private" if chat > 0 else "supergroup"
    return {
        "message": {
            "message_id": number,
            "from": {"id": person, "is_bot": False, "first_name": f"U{person}"},
            "chat": {"id": chat, "type": kind},
            "date": 1_760_000_000 + number,
            "text": text,
        }
    }


def _messages(source: Object, where: str, first: int) -> list[Object]:
    chat, text = integer_in(source, "chat"), text_in(source, "text")
    if not chat or text is None:
        raise _wrong(where, "needs a chat, not 0, and a text")
    times = integer_in(source, "times") or 1
    sender = integer_in(source, "sender")
    return [
        message_update(chat, text.replace("{n}", str(n + 1)), first + n + 1, sender=sender)
        for n in range(times)
    ]


def _fault(source: Object, where: str) -> Fault:
    kind = text_in(source, "kind")
    if kind not in KINDS:
        raise _wrong(f"{where}.kind", f"is one of {', '.join(KINDS)}")
    seconds = source.get("seconds", 1.0)
    times, code = integer_in(source, "times"), integer_in(source, "code")
    return Fault(
        method=text_in(source, "method") or "*",
        kind=kind,
        times=1 if times is None else times,
        after=integer_in(source, "after") or 0,
        chat=integer_in(source, "chat"),
        text=text_in(source, "text"),
        code=(502 if kind == "html" else 500) if code is None else code,
        description=text_in(source, "description") or "Internal Server Error: restart",
        parameters=object_in(source, "parameters"),
        seconds=float(seconds) if isinstance(seconds, int | float) else 1.0,
    )


def _object(value: Plain, where: str) -> Object:
    told = as_object(value)
    if told is None:
        raise _wrong(where, "is no object")
    return told


def _wrong(where: str, what: str) -> BusError:
    return BusError(Code.INVALID_MESSAGE, f"{where} {what}", where=where)


__all__ = ["KINDS", "Fault", "FaultKind", "Script", "load_script", "message_update", "script_of"]
