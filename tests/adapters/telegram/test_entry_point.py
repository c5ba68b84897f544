"""The channel by its name: `shardline run bot:topology --adapter telegram`, made of the environment alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from shardline.actors.errors import BusError, Code
from shardline.adapters.telegram import Telegram
from shardline.plugins import load_adapter, settings_of
from tests.adapters.telegram.samples import TOKEN
from tests.adapters.telegram.test_command import ENVIRON, LIMIT_S, ask, sim
from tests.kits.reaped import reaped

BOT = """
from shardline import BusMessage, Context, Topology

topology = Topology()

@topology.on("chat.message")
async def answer(ctx: Context, message: BusMessage) -> None:
    ctx.reply("you said " + message.payload.text)
"""


def test_it_is_found_and_made_of_the_environment() -> None:
    environ = {"SHARDLINE_TELEGRAM_TOKEN": f" {TOKEN}\n", "SHARDLINE_TELEGRAM_API_BASE": "http://127.0.0.1:9"}
    adapter = load_adapter("telegram", settings_of("telegram", environ))

    assert isinstance(adapter, Telegram)
    assert repr(adapter) == "Telegram(HttpApi(127.0.0.1))"


@pytest.mark.parametrize(
    ("environ", "code", "said"),
    [
        ({}, Code.UNKNOWN_ADAPTER, "set SHARDLINE_TELEGRAM_TOKEN"),
        ({"SHARDLINE_TELEGRAM_TOKEN": "s3cr3t"}, Code.BAD_TOKEN, "no token of a bot"),
        (
            {"SHARDLINE_TELEGRAM_TOKEN": TOKEN, "SHARDLINE_TELEGRAM_PROXY": "ftp://me:s3cr3t@host"},
            Code.INVALID_MESSAGE,
            "the proxy is an address",
        ),
    ],
)
def test_what_is_missing_is_told(environ: dict[str, str], code: Code, said: str) -> None:
    with pytest.raises(BusError) as caught:
        load_adapter("telegram", settings_of("telegram", environ))

    assert caught.value.code is code
    assert said in str(caught.value)
    assert "s3cr3t" not in f"{caught.value}{caught.value.context}"


def test_a_list_of_names_imports_none_of_it() -> None:
    program = (
        "import sys; from shardline.plugins import known_adapters; print('telegram' in known_adapters(), "
        "[name for name in sys.modules if 'httpx' in name or 'adapters.telegram' in name])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout == "True []\n"


def test_a_bot_runs_with_it(tmp_path: Path) -> None:
    (tmp_path / "bot.py").write_text(BOT)
    with sim(tmp_path, {"messages": [{"chat": 5, "text": "hi {n}", "times": 2}]}) as base:
        command = [
            sys.executable,
            "-m",
            "shardline",
            "run",
            str(tmp_path / "bot.py"),
            "--adapter",
            "telegram",
        ]
        with (
            open(tmp_path / "log", "wb") as log,
            reaped(
                subprocess.Popen(
                    [*command, "--store", str(tmp_path / "bot.db")],
                    env={**os.environ, **ENVIRON, "SHARDLINE_TELEGRAM_API_BASE": base},
                    stderr=log,
                )
            ) as process,
        ):
            ask(base, "wait", {"sent": 2})
            process.send_signal(signal.SIGTERM)
            assert process.wait(LIMIT_S) == 0, (tmp_path / "log").read_text()

    assert (tmp_path / "calls").read_text().count("you said hi") == 2
