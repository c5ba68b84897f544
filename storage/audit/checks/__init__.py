"""The checks of the audit. `registry` lists them; importing this package imports no Spark."""

__all__: list[str] = []
