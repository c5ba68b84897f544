"""A runtime inside a running asyncio program: trio as a guest of its loop. `shardline.asyncio` is its front."""
