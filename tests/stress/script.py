"""What a message of the stress workload asks of its handler, and what a send asks of its channel: texts that say so.

Everything that happens in a run follows from these texts, so that a model can tell from them how it has to end.
"""

from __future__ import annotations

import enum
import json
from typing import Final, cast

import attrs

CHANNELS: Final = ("sure", "once", "blind")
"""`sure` looks sends up, `once` drops repeats by our key, `blind` can do neither. The name is the prefix too."""

TOPICS: Final = ("chat.message", "dm.reply.v1")
SLOW_TOPIC: Final = "dm.checkin.v1"
"""The topic with the short time limit."""

EVENT_TOPIC: Final = "log"
TURN_TRIES: Final = 5
SEND_TRIES: Final = 7


class Act(enum.StrEnum):
    """What the handler does before it decides anything."""

    OK = "ok"
    SLOW = "slow"
    FAIL = "fail"
    FAIL_GROUP = "fail-group"
    SPENT = "spent"
    PERMANENT = "permanent"
    PERMANENT_GROUP = "permanent-group"
    REVIVE = "revive"
    HANG = "hang"


DEAD_ACTS: Final = {Act.SPENT: None, Act.PERMANENT: "x.stress", Act.PERMANENT_GROUP: "x.group"}
"""Acts that end dead, with the code of their own."""

REVIVED_CODE: Final = "x.revive"


class Mood(enum.StrEnum):
    """What the channel does with a send."""

    OK = "ok"
    LATER = "later"
    SPENT = "spent"
    REFUSED = "refused"
    LIMITED = "limited"
    LOST_SENT = "lost-sent"
    LOST_UNSENT = "lost-unsent"
    RAISED_SENT = "raised-sent"
    RAISED_UNSENT = "raised-unsent"
    HUNG = "hung"


OPEN_MOODS: Final = {Mood.LOST_SENT, Mood.LOST_UNSENT, Mood.RAISED_SENT, Mood.RAISED_UNSENT, Mood.HUNG}
"""The first try of these has no clean answer."""

UNSENT_MOODS: Final = {Mood.LOST_UNSENT, Mood.RAISED_UNSENT, Mood.HUNG}


@attrs.frozen(kw_only=True)
class Say:
    """A send; `key` None is a reply."""

    mood: Mood = Mood.OK
    policy: str | None = None
    key: str | None = None


@attrs.frozen(kw_only=True)
class Tell:
    """A message for another conversation."""

    topic: str
    key: str
    script: Script


@attrs.frozen(kw_only=True)
class Script:
    """One message. `times` failures come before its success; `pad` None leaves the state's padding as it is."""

    name: str
    act: Act = Act.OK
    times: int = 0
    says: tuple[Say, ...] = ()
    tells: tuple[Tell, ...] = ()
    has_event: bool = False
    pad: int | None = None

    @property
    def text(self) -> str:
        """The message's text."""
        return json.dumps(self._plain(), separators=(",", ":"))

    def send_text(self, index: int) -> str:
        """The text of one of its sends."""
        return f"{self.name}/{index} {self.says[index].mood}"

    def _plain(self) -> dict[str, object]:
        plain: dict[str, object] = {"n": self.name, "a": str(self.act)}
        if self.times:
            plain["x"] = self.times
        if self.says:
            plain["s"] = [[str(say.mood), say.policy, say.key] for say in self.says]
        if self.tells:
            plain["t"] = [[tell.topic, tell.key, tell.script._plain()] for tell in self.tells]
        if self.has_event:
            plain["e"] = True
        if self.pad is not None:
            plain["p"] = self.pad
        return plain


def parse(text: str) -> Script:
    """Read a message's text."""
    return _script(cast("dict[str, object]", json.loads(text)))


def name_of(text: str) -> str:
    """The name of the message with this text."""
    return cast("str", json.loads(text)["n"])


def _script(plain: dict[str, object]) -> Script:
    says = cast("list[tuple[str, str | None, str | None]]", plain.get("s", []))
    tells = cast("list[tuple[str, str, dict[str, object]]]", plain.get("t", []))
    return Script(
        name=cast("str", plain["n"]),
        act=Act(cast("str", plain["a"])),
        times=cast("int", plain.get("x", 0)),
        says=tuple(Say(mood=Mood(mood), policy=policy, key=key) for mood, policy, key in says),
        tells=tuple(Tell(topic=topic, key=key, script=_script(below)) for topic, key, below in tells),
        has_event=bool(plain.get("e")),
        pad=cast("int | None", plain.get("p")),
    )
