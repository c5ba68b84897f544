"""The command `shardline`."""
