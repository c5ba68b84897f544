"""What a seed decides: what goes wrong in each run of the process, in which order, and how the run ends."""

from __future__ import annotations

import enum
import random
from typing import Final

import attrs

CONVERSATIONS: Final = 8
HOUR_US: Final = 3_600_000_000


class Storm(enum.StrEnum):
    """One thing that goes wrong for a while."""

    DISK_FULL = "disk-full"
    FOREIGN_LOCK = "foreign-lock"
    LOG_FAILS = "log-fails"
    """One write or sync of the log fails: mended within the commit, nobody is to notice."""
    BACKEND_DOWN = "backend-down"
    HANDLERS_HANG = "handlers-hang"
    FLOOD = "flood"
    LIMITED = "limited"
    LOST_ANSWERS = "lost-answers"
    """Sends that arrive or not, without an answer; the channel can be asked."""
    EDGE_CRASH = "edge-crash"
    EDGE_REPORT = "edge-report"
    DOUBT = "doubt"
    """The same on a channel that cannot be asked: a person decides."""
    CLOCK_JUMP = "clock-jump"
    BAD_TOKEN = "bad-token"
    """Only the next start mends it: the last storm of a run."""


WORDS: Final = {
    Storm.DISK_FULL: "store_failing",
    Storm.FOREIGN_LOCK: "store_failing",
    Storm.BACKEND_DOWN: "breaker_open",
    Storm.HANDLERS_HANG: "turns_overdue",
    Storm.FLOOD: "intake_paused",
    Storm.LIMITED: "channel_paused",
    Storm.EDGE_CRASH: "edge_down",
    Storm.EDGE_REPORT: "channel_reports",
    Storm.DOUBT: "sends_uncertain",
    Storm.BAD_TOKEN: "channel_stopped",
}
"""What the health has to say of each; the others are nothing that health is about."""

_MAIN: Final = (
    Storm.DISK_FULL, Storm.FOREIGN_LOCK, Storm.LOG_FAILS, Storm.BACKEND_DOWN, Storm.HANDLERS_HANG, Storm.FLOOD,
    Storm.LIMITED, Storm.LOST_ANSWERS, Storm.DOUBT,
)  # fmt: skip
_BESIDE: Final = (Storm.EDGE_CRASH, Storm.EDGE_REPORT, Storm.CLOCK_JUMP)
"""What may come at the same time as any other."""


class End(enum.StrEnum):
    """How a run ends."""

    STOP = "stop"
    KILL = "kill"
    """SIGKILL at a call to the store's files, in the middle of a storm."""
    DISK_DIES = "disk-dies"
    """The log takes no write any more: the runtime gives up with STORE_IO."""
    DONE = "done"
    """All is worked off."""


@attrs.frozen(kw_only=True)
class RunPlan:
    """One run.

    Attributes:
        storms: Those of one entry come together; then all has to be well, and the next entry comes.
        end: How it ends.
        kill_storm: With KILL: in which entry.
        kill_calls: So many calls to the files later.
        wall_us: Where the wall clock stands at its start.
    """

    number: int
    storms: tuple[tuple[Storm, ...], ...]
    end: End
    kill_storm: int = 0
    kill_calls: int = 0
    wall_us: int


def chance_of(seed: int, number: int) -> random.Random:
    """Of one run."""
    return random.Random(f"chaos {seed} {number}")


def plan_run(seed: int, number: int, *, is_last: bool) -> RunPlan:
    """What the seed says of a run."""
    chance = chance_of(seed, number)
    # Every kind comes up soon: each run begins with another one.
    first = _MAIN[(seed + number) % len(_MAIN)]
    mains = [first, *(chance.choice(_MAIN) for _ in range(chance.randint(1, 3)))]
    storms = [(main, *chance.sample(_BESIDE, chance.choice([0, 1, 1, 2]))) for main in mains]
    end = End.DONE if is_last else chance.choice([End.KILL, End.KILL, End.KILL, End.STOP, End.DISK_DIES])
    if end is End.STOP and chance.random() < 0.5:
        storms.append((Storm.BAD_TOKEN,))
    return RunPlan(
        number=number,
        storms=tuple(storms),
        end=end,
        kill_storm=chance.randrange(len(storms)),
        kill_calls=chance.randint(1, 400),
        # The machine's clock may be set back while the bot is down, too.
        wall_us=1_767_225_600_000_000 + number * HOUR_US + chance.randint(-2, 2) * HOUR_US,
    )


def text_of(seed: int, conversation: str, number: int) -> str:
    """What somebody says in a conversation: a word that tells the bot what to do, and its number."""
    chance = random.Random(f"{seed} {conversation} {number}")
    word = chance.choices(["hi", "retry", "poke", "later"], weights=[70, 12, 10, 8])[0]
    return f"{word} {number}"
