import os
import subprocess
import sys

import pytest

from tests.kits.operated import operate


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_it_prints_a_script_for_the_shell(shell: str) -> None:
    ended = operate("completion", shell)

    assert ended.exit_code == 0
    assert "_SHARDLINE_COMPLETE" in ended.stdout


def test_another_shell_is_exit_2() -> None:
    assert operate("completion", "tcsh").exit_code == 2


def test_the_command_completes_as_the_script_asks() -> None:
    environment = {
        **os.environ,
        "_SHARDLINE_COMPLETE": "bash_complete",
        "COMP_WORDS": "shardline in",
        "COMP_CWORD": "1",
    }
    command = [sys.executable, "-m", "shardline"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=30, check=False)

    assert done.stdout == "plain,inbox\n"


def test_help_lists_every_command_and_loads_each() -> None:
    ended = operate("--help")

    assert ended.exit_code == 0
    for name in ("demo", "status", "inbox", "outbox", "dlq", "run", "doctor", "migrate", "completion"):
        assert f"\n  {name} " in ended.stdout
        assert operate(name, "--help").exit_code == 0
