"""An echo on Telegram with a web hook, for a test that kills it: `hook_bot FOLDER BASE PORT POINT`.

It dies at the fail point, if one is named (`-`: none). Told a line, it ends once nothing is open any more.
"""

from __future__ import annotations

import sys
from pathlib import Path

import trio

from shardline import Runtime
from shardline.actors.failpoints import NO_FAILPOINTS, FailPoints
from shardline.adapters.telegram import Telegram, Webhook
from shardline.storage.sqlite import open_sqlite
from tests.adapters.telegram.platform import FREE, echo_bot
from tests.adapters.telegram.samples import TOKEN

SECRET = "a-secret_of-tests"


async def main(folder: Path, base: str, port: int, point: str) -> None:
    store = open_sqlite(
        folder / "bot.db",
        durability="normal",
        failpoints=NO_FAILPOINTS if point == "-" else FailPoints.parse(point),
    )
    # No address for the platform: the test is what calls.
    adapter = Telegram(TOKEN, api_base=base, limits=FREE, webhook=Webhook(secret=SECRET, port=port))
    async with Runtime.open(echo_bot(), store=store, adapters=[adapter]) as runtime:
        print("ready", flush=True)
        await trio.to_thread.run_sync(sys.stdin.readline)
        await runtime.wait_until(lambda: runtime.is_quiet)


if __name__ == "__main__":
    trio.run(main, Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4])
