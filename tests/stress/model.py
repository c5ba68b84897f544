"""How a plan has to end: each message, each send and each event by name. Nothing here knows how it is done."""

from __future__ import annotations

import attrs

from tests.stress.plan import Plan
from tests.stress.script import DEAD_ACTS, OPEN_MOODS, UNSENT_MOODS, Act, Mood, Say, Script


@attrs.frozen(kw_only=True)
class Wanted:
    """One message and how it ends; `parent` is the message whose turn makes it."""

    key: str
    topic: str
    script: Script
    parent: str | None = None

    @property
    def is_dead(self) -> bool:
        """Whether it gives up."""
        return self.script.act in DEAD_ACTS

    @property
    def own_code(self) -> str | None:
        """The code of its own that it gives up with."""
        return DEAD_ACTS.get(self.script.act)

    @property
    def generation(self) -> int:
        """How often somebody sends it through again."""
        return int(self.script.act is Act.REVIVE)

    def has_failures(self, failures: int) -> bool:
        """Whether so many failed turns fit; a short time limit may be met by chance as well."""
        match self.script.act:
            case Act.HANG:
                return failures >= self.script.times
            case Act.SPENT:
                return failures == 5
            case Act.PERMANENT | Act.PERMANENT_GROUP:
                return failures == 1
            case _:
                return failures == self.script.times

    def send_key(self, index: int) -> str:
        """The conversation that one of its sends goes to."""
        return self.script.says[index].key or self.key


def wanted_of(plan: Plan) -> dict[str, Wanted]:
    """All messages by name, those made by turns as well."""
    wanted: dict[str, Wanted] = {}

    def enter(one: Wanted) -> None:
        wanted[one.script.name] = one
        if not one.is_dead:
            for tell in one.script.tells:
                enter(Wanted(key=tell.key, topic=tell.topic, script=tell.script, parent=one.script.name))

    for item in plan.items():
        enter(Wanted(key=item.key, topic=item.topic, script=item.script))
    return wanted


@attrs.frozen(kw_only=True)
class SendStory:
    """What happened to one send, as the store and the channel's ledger tell it.

    Attributes:
        state: `sent`, `dead`, `uncertain`, or anything else.
        starts: The claims it was started under.
        lines: The claims it really went out under, in order.
        cuts: How often it was cut off: by the end of the process, or by a crash of its actor.
        attempts: Counted against its budget.
    """

    channel: str
    say: Say
    state: str
    code: str | None
    starts: frozenset[int]
    lines: tuple[int, ...]
    cuts: int
    attempts: int


def wrong_in(story: SendStory) -> str | None:
    """What is wrong with the end of a send; None if it is as it must be."""
    lines = len(story.lines)
    if not set(story.lines) <= story.starts:
        return "it went out under a claim that was not on disk"
    if list(story.lines) != sorted(set(story.lines)):
        return "it went out twice under one claim, or under an older one later"
    if story.channel != "blind" and lines > 1:
        return "it went out twice"
    if story.state not in _ends(story):
        return f"it ends as {story.state}, wanted {sorted(_ends(story))}"
    if story.state == "sent":
        return None if lines else "it is said to be sent and did not go out"
    if story.say.mood in {Mood.REFUSED, Mood.SPENT} and lines:
        return "it went out, which the channel refused"
    if story.state == "dead" and story.code not in _codes(story):
        return f"it died of {story.code}"
    if story.say.mood is Mood.LOST_SENT and not lines and not story.cuts:
        return "it did not go out"
    if story.say.mood in UNSENT_MOODS and lines and not story.cuts:
        return "it went out after all"
    return None


def _ends(story: SendStory) -> set[str]:
    """The states in which it may end."""
    mood, policy = story.say.mood, story.say.policy
    ends = {"dead"} if mood in {Mood.REFUSED, Mood.SPENT} else {"sent"}
    if story.channel == "sure":
        return ends
    is_open = mood in OPEN_MOODS or story.cuts > 0
    if is_open and story.attempts >= 7:
        ends |= {"uncertain"}
    if story.channel == "blind" and policy != "resend":
        end = "dead" if policy == "drop" else "uncertain"
        if mood in OPEN_MOODS and not story.cuts:
            return {end}
        if is_open:
            return ends | {end}
    return ends


def _codes(story: SendStory) -> set[str]:
    match story.say.mood:
        case Mood.REFUSED:
            codes = {"CONTENT_REFUSED"}
        case Mood.SPENT:
            codes = {"NOT_FOUND"}
        case _:
            codes = set[str]()
    return codes | {"DELIVERY_UNCERTAIN"} if story.say.policy == "drop" else codes
