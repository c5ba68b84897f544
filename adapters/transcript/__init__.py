"""The transcript channel: a chat log in, a sink file out."""

from .actor import Transcript
from .intake import Tally
from .reader import BadLine
from .sink import Sink, open_sink
from .sink_lines import SinkLine, order_violations, read_sink

__all__ = [
    "BadLine",
    "Sink",
    "SinkLine",
    "Tally",
    "Transcript",
    "open_sink",
    "order_violations",
    "read_sink",
]
