"""`python -m shardline` is the command `shardline`."""

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command with the process's arguments."""
    try:
        # Loading takes a third of a second, and who types fast has a Ctrl-C ready by then.
        from .runtime.command.app import main as run  # noqa: PLC0415

        run()
    except KeyboardInterrupt:
        # Nothing has begun: a command that has tells its end by itself.
        sys.stderr.write("shardline: ended by Ctrl-C\n")
        sys.exit(1)


if __name__ == "__main__":
    main()
