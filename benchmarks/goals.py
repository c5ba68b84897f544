"""The goals, ratios in one run: publish, chat and dead letters to raw SQLite, chat beside a broadcast to chat alone."""

import sys

from benchmarks.broadcast import broadcast_goals
from benchmarks.chat import chat_goals
from benchmarks.comparison import run_goals
from benchmarks.dead_letters import dead_letter_goals
from benchmarks.publish import publish_goals
from benchmarks.telegram import telegram_goals

if __name__ == "__main__":
    goals = [*publish_goals(), *chat_goals(), *dead_letter_goals(), *broadcast_goals(), *telegram_goals()]
    sys.exit(run_goals("goals", __doc__ or "", goals))
