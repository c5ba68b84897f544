"""The conformance kit of channels: what an adapter promises, as checks that its author runs."""

from ...actors.kit_check import explain_assertions as _explain_assertions

_explain_assertions(__name__, "contract", "edge", "reading", "reads", "sends", "shape")

from .edge import FakeEdge  # noqa: E402 (pytest has to know of the modules before they are loaded)
from .kit import adapter_kit  # noqa: E402
from .platform import MakePlatform, Platform  # noqa: E402

__all__ = ["FakeEdge", "MakePlatform", "Platform", "adapter_kit"]
