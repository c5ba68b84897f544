"""`shardline completion`: what a shell needs to complete the command."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from .problem import Problem


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print a shell's completion script.

    \b
    bash  eval "$(shardline completion bash)"   in ~/.bashrc
    zsh   eval "$(shardline completion zsh)"    in ~/.zshrc
    fish  shardline completion fish > ~/.config/fish/completions/shardline.fish
    """
    made = get_completion_class(shell)
    if made is None:
        raise Problem(f"{shell} is not supported")
    root = ctx.find_root()
    click.echo(made(root.command, {}, "shardline", "_SHARDLINE_COMPLETE").source())


__all__ = ["command"]
