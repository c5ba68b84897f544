"""The conformance kit of stores: what a backend promises, as checks that its author runs."""

from ...actors.kit_check import explain_assertions as _explain_assertions

_explain_assertions(
    __name__, "claims", "life", "opened", "reads", "rows", "sends", "steps", "upkeep", "writes"
)

from .kit import OpenStore, store_kit  # noqa: E402 (pytest has to know of the modules before they are loaded)

__all__ = ["OpenStore", "store_kit"]
