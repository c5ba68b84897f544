import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardline.actors.text import clean_text, has_lone_surrogate


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("hi", "hi"),
        ("", ""),
        ("héllo 😀", "héllo 😀"),
        ("\ud83d", "\ufffd"),
        ("a\ud83db", "a\ufffdb"),
        ("\ude00\ud83d", "\ufffd\ufffd"),
        ("\ud83d\ud83d\ude00", "\ufffd😀"),
        ("\ud83d\ude00", "😀"),
        ("é\udcff😀", "é\ufffd😀"),
    ],
)
def test_lone_surrogates_are_replaced(text: str, cleaned: str) -> None:
    assert clean_text(text) == cleaned
    assert not has_lone_surrogate(cleaned)


@given(text=st.text(st.characters()))
def test_cleaned_text_can_be_encoded(text: str) -> None:
    cleaned = clean_text(text)

    assert cleaned.encode().decode() == cleaned
    assert clean_text(cleaned) is cleaned
    if not has_lone_surrogate(text):
        assert cleaned is text
