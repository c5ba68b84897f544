"""The goals: durable publish, the chat path, a page of dead letters, each as a ratio to raw SQLite in the same run."""

import sys

from benchmarks.chat import chat_goals
from benchmarks.comparison import run_goals
from benchmarks.dead_letters import dead_letter_goals
from benchmarks.publish import publish_goals
from benchmarks.telegram import telegram_goals

if __name__ == "__main__":
    sys.exit(
        run_goals(
            "goals",
            __doc__ or "",
            [*publish_goals(), *chat_goals(), *dead_letter_goals(), *telegram_goals()],
        )
    )
