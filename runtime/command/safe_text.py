"""Chat text on a terminal: what strangers wrote must not move the cursor, change colours or turn the line round."""

from __future__ import annotations

import re

# C0, DEL and C1 controls, line and paragraph separators, surrogates, everything that steers direction, and what is
# invisible: soft hyphen, zero-width space, word joiner and its kin, byte order mark, annotation and tag characters.
# The joiners U+200C and U+200D stay: scripts and emoji need them.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
_PICTURES = 0x2400
_DELETE_PICTURE = "\u2421"


def safe_text(text: str) -> str:
    """Replace every character that a terminal could obey; the length stays.

    Returns:
        The text with control characters as their pictures (U+2400 …), all other unsafe ones as U+FFFD.
    """
    return _UNSAFE.sub(_visible, text)


def _visible(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x20:
        return chr(_PICTURES + code)
    return _DELETE_PICTURE if code == 0x7F else "\ufffd"


__all__ = ["safe_text"]
