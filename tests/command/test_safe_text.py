import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardline.runtime.command.safe_text import safe_text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("hello, wörld 你好", "hello, wörld 你好"),
        ("👩\u200d🚀 क\u200dष", "👩\u200d🚀 क\u200dष"),
        ("\x1b[31mred\x1b[0m", "␛[31mred␛[0m"),
        ("one\ntwo\r\tthree", "one␊two␍␉three"),
        ("bell\x07 back\x08 nul\x00 del\x7f", "bell␇ back␈ nul␀ del␡"),
        ("\x9b31m c1 csi, \x85 next line", "\ufffd31m c1 csi, \ufffd next line"),
        ("evil\u202etxt.exe \u2066a\u2069 \u200f\u061c", "evil\ufffdtxt.exe \ufffda\ufffd \ufffd\ufffd"),
        ("line\u2028para\u2029", "line\ufffdpara\ufffd"),
        ("\ud83d \ufeff \u200b \u2060 \U000e0041", "\ufffd \ufffd \ufffd \ufffd \ufffd"),
        ("", ""),
    ],
)
def test_what_a_terminal_could_obey_is_made_visible(text: str, shown: str) -> None:
    assert safe_text(text) == shown


@given(st.text(st.characters()))
def test_no_control_or_direction_character_is_left(text: str) -> None:
    shown = safe_text(text)

    assert len(shown) == len(text)
    assert safe_text(shown) == shown
    for char in shown:
        assert unicodedata.category(char) not in {"Cc", "Cs", "Zl", "Zp"}
        assert unicodedata.bidirectional(char) not in {
            "LRE",
            "RLE",
            "LRO",
            "RLO",
            "PDF",
            "LRI",
            "RLI",
            "FSI",
            "PDI",
        }
