"""The workload of one seed: who says what, in which order it is read, and how each run of the process ends.

A message is made from the seed and its number alone, so that nobody holds all of them.
"""

from __future__ import annotations

import enum
import random
from array import array
from collections.abc import Iterator
from functools import cached_property
from itertools import accumulate
from typing import Final, TypeVar

import attrs

from tests.stress.script import CHANNELS, SLOW_TOPIC, TOPICS, Act, Mood, Say, Script, Tell

READERS: Final = 24
"""Of each channel: each reads its own conversations, in order."""

PROGRAMS: Final = 8
"""Publishers that are no channel."""

FLOOD: Final = 40
"""Messages that come one after the other from one conversation, now and then."""

T = TypeVar("T")


@attrs.frozen(kw_only=True)
class Sizes:
    """How much of everything. `kills` are SIGKILLs; with two or more come a clean stop and a journal that gives up."""

    conversations: int
    messages: int
    kills: int


SHORT: Final = Sizes(conversations=60, messages=3_000, kills=2)
LONG: Final = Sizes(conversations=400, messages=20_000, kills=5)
FULL: Final = Sizes(conversations=2_000, messages=200_000, kills=8)


class EndKind(enum.StrEnum):
    """How one run of the process ends."""

    KILL = "kill"
    """SIGKILL from outside, some time after a mark."""
    KILL_OPENING = "kill-opening"
    """SIGKILL from outside while it starts or recovers."""
    KILL_AT_COMMIT = "kill-at-commit"
    """SIGKILL at the border of a commit."""
    JOURNAL = "journal"
    """The journal raises at the border of a commit, and the runtime ends."""
    STOP = "stop"
    """SIGTERM: a clean stop in the middle of everything."""
    DONE = "done"
    """All is done."""


@attrs.frozen(kw_only=True)
class Ending:
    """One run's end.

    Attributes:
        mark: Messages handled in all runs, at which it comes near.
        after_s: Seconds after the mark, or after the start.
        point: A fail point.
    """

    kind: EndKind
    mark: int = 0
    after_s: float = 0.0
    point: str | None = None


@attrs.frozen(kw_only=True)
class Item:
    """One message as it is said."""

    key: str
    topic: str
    script: Script

    @property
    def channel(self) -> str:
        """Of its conversation."""
        return self.key.partition(":")[0]

    @property
    def address(self) -> str:
        """Its conversation, without prefix."""
        return self.key.partition(":")[2]


class Plan:
    """All that a seed and its sizes decide."""

    def __init__(self, seed: int, sizes: Sizes) -> None:
        self.seed = seed
        self.sizes = sizes
        self.relayed = bool(seed & 1)

    @cached_property
    def speakers(self) -> array[int]:
        """Whose turn it is to speak: the conversation of each message, by its number."""
        chance = random.Random(self.seed)
        count, messages = self.sizes.conversations, self.sizes.messages
        weights = list(accumulate((rank + 8) ** -0.7 for rank in range(count)))
        spoken = array("I", chance.choices(range(count), cum_weights=weights, k=messages))
        for start in range(0, messages - FLOOD, FLOOD):
            if chance.random() < 0.04:
                spoken[start : start + FLOOD] = array("I", [chance.randrange(count)] * FLOOD)
        return spoken

    def key(self, conversation: int) -> str:
        """Of a conversation, by its number."""
        return f"{CHANNELS[conversation % len(CHANNELS)]}:c{conversation}"

    def is_program(self, number: int) -> bool:
        """Whether a message is published by a program and not read from a channel."""
        return number % 10 == 7

    def read_by(self, channel: str, reader: int) -> array[int]:
        """The numbers of the messages that one reader of a channel reads, in order."""
        mine = CHANNELS.index(channel) + len(CHANNELS) * reader
        step = len(CHANNELS) * READERS
        return array(
            "I",
            (n for n, who in enumerate(self.speakers) if who % step == mine and not self.is_program(n)),
        )

    def read_numbers(self) -> dict[str, int]:
        """The number of each message that is read from a channel, by its name."""
        return {f"m{n}": n for n in range(self.sizes.messages) if not self.is_program(n)}

    def published_by(self, program: int) -> range:
        """The numbers of the messages that one program publishes, in order."""
        return range(7 + 10 * program, self.sizes.messages, 10 * PROGRAMS)

    def items(self) -> Iterator[Item]:
        """All that is said from outside."""
        return (self.item(number) for number in range(self.sizes.messages))

    def item(self, number: int) -> Item:
        """One message, by its number."""
        chance = random.Random(self.seed * 1_000_003 + number)
        key = self.key(self.speakers[number])
        act, times = self._act(chance)
        tells = tuple(
            self._tell(chance, f"m{number}.{index}")
            for index in range(_draw(chance, {0: 94, 1: 4, 2: 1, 3: 1}))
        )
        script = Script(
            name=f"m{number}",
            act=act,
            times=times,
            says=tuple(self._say(chance, key) for _ in range(_draw(chance, {0: 14, 1: 66, 2: 15, 4: 5}))),
            tells=tells,
            has_event=chance.random() < 0.08,
            pad=chance.randrange(3_000) if chance.random() < 0.02 else None,
        )
        topic = SLOW_TOPIC if act is Act.HANG else chance.choice(TOPICS)
        return Item(key=key, topic=topic, script=script)

    @cached_property
    def endings(self) -> tuple[Ending, ...]:
        """How the runs end, the last one by having nothing left to do."""
        chance = random.Random(self.seed + 1)
        kinds = [EndKind.KILL, EndKind.KILL_AT_COMMIT, EndKind.KILL_OPENING][: self.sizes.kills]
        kinds += [chance.choice(kinds) for _ in range(self.sizes.kills - len(kinds))]
        if self.sizes.kills > 1:
            kinds += [EndKind.JOURNAL, EndKind.STOP]
        chance.shuffle(kinds)
        # The last run is long enough to see whether memory stays flat in it.
        share = 0.55 * self.sizes.messages / max(1, len(kinds))
        return (
            *(self._ending(chance, kind, place, share) for place, kind in enumerate(kinds)),
            Ending(kind=EndKind.DONE),
        )

    @cached_property
    def marks(self) -> tuple[int, ...]:
        """Where the last run looks at its memory: messages handled in all runs."""
        return tuple(int(self.sizes.messages * share) for share in (0.66, 0.76, 0.86, 0.96))

    @property
    def strikes(self) -> int:
        """How often each kind of actor crashes in all runs together."""
        return max(4, min(20, self.sizes.messages // 2_000))

    def _ending(self, chance: random.Random, kind: EndKind, place: int, share: float) -> Ending:
        mark = int(share * (place + chance.uniform(0.3, 1.0)))
        point = None
        if kind is EndKind.KILL_AT_COMMIT:
            commit = chance.choice(["accept", "done", "send-start", "send-result", "retry", "dead", "emit"])
            hits = 4 if commit in {"retry", "dead", "emit"} else 40
            border = chance.choice(["before_commit", "after_commit", "before_wake"])
            point = f"{commit}.{border}:{chance.randint(2, hits)}:kill"
        elif kind is EndKind.JOURNAL:
            point = f"{chance.choice(['accept', 'done', 'send-result'])}.after_commit:{chance.randint(5, 40)}:raise"
        after_s = chance.uniform(0.0, 0.4 if kind is EndKind.KILL_OPENING else 0.1)
        return Ending(kind=kind, mark=mark, after_s=after_s, point=point)

    def _act(self, chance: random.Random) -> tuple[Act, int]:
        act = _draw(
            chance,
            {
                Act.OK: 820,
                Act.SLOW: 60,
                Act.FAIL: 50,
                Act.FAIL_GROUP: 20,
                Act.PERMANENT: 15,
                Act.PERMANENT_GROUP: 10,
                Act.REVIVE: 10,
                Act.SPENT: 5,
                Act.HANG: 5,
            },
        )
        return act, chance.choice([1, 1, 2]) if act in {Act.FAIL, Act.FAIL_GROUP} else int(act is Act.HANG)

    def _say(self, chance: random.Random, key: str) -> Say:
        target = None
        if chance.random() < 0.05:
            target = self.key(chance.randrange(self.sizes.conversations))
        mood = _draw(
            chance,
            {
                Mood.OK: 880,
                Mood.LATER: 40,
                Mood.LIMITED: 10,
                Mood.REFUSED: 15,
                Mood.SPENT: 3,
                Mood.LOST_SENT: 20,
                Mood.LOST_UNSENT: 15,
                Mood.RAISED_SENT: 7,
                Mood.RAISED_UNSENT: 7,
                Mood.HUNG: 3,
            },
        )
        if mood is Mood.HUNG and not (target or key).startswith("sure:"):
            # Only that channel has a time limit so short, and it alone can tell what a limit met by chance has cut off.
            mood = Mood.LOST_UNSENT
        is_blind = (target or key).startswith("blind:")
        policy = chance.choice([None, None, "resend", "drop"]) if is_blind else None
        return Say(mood=mood, policy=policy, key=target)

    def _tell(self, chance: random.Random, name: str) -> Tell:
        key = self.key(chance.randrange(self.sizes.conversations))
        act = _draw(chance, {Act.OK: 90, Act.FAIL: 6, Act.PERMANENT: 4})
        script = Script(name=name, act=act, times=int(act is Act.FAIL), says=(self._say(chance, key),))
        return Tell(topic=chance.choice(TOPICS), key=key, script=script)


def _draw(chance: random.Random, weights: dict[T, int]) -> T:
    return chance.choices(list(weights), weights=list(weights.values()))[0]
