"""`python -m shardline` is the command `shardline`."""

from .runtime.command.app import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
