"""A server of the Bot API for tests: scripted, over real sockets, and it fails as the real one does."""
