import gzip
import json
import tracemalloc
from pathlib import Path

import pytest

from shardline.adapters.transcript import reader
from shardline.adapters.transcript.reader import BadLine, ChatLine, ChatLog, open_log, parse_line

GOOD = {"conversation": 7, "seq": 0, "sender": "user1", "at": "09:14", "text": "hello"}


def line(**changes: object) -> bytes:
    return json.dumps({**GOOD, **changes}).encode() + b"\n"


def read_all(log: ChatLog) -> list[ChatLine | BadLine]:
    return [log.read(index) for index in range(log.lines)]


def texts(log: ChatLog) -> list[str]:
    return [found.text if isinstance(found, ChatLine) else f"bad {found.number}" for found in read_all(log)]


@pytest.mark.parametrize(
    ("data", "conversation"),
    [
        (line(), "7"),
        (line(conversation=-100123), "-100123"),
        (line(conversation="9223372036854775808"), "9223372036854775808"),
        (line(conversation="café"), "café"),
        (line(more={"x": [1]}), "7"),
        (line().rstrip(), "7"),
        (line().replace(b"\n", b"\r\n"), "7"),
        (line(seq=2**63 - 1, at="23:59", sender="ü"), "7"),
        (b'{"text": "hello", "seq": 0, "at": "09:14", "sender": "user1", "conversation": 7}', "7"),
    ],
)
def test_a_good_line_is_a_message(data: bytes, conversation: str) -> None:
    found = parse_line(3, data)

    assert isinstance(found, ChatLine)
    assert (found.number, found.conversation, found.text) == (3, conversation, "hello")
    assert reader.conversation_of(data) == conversation


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not JSON"),
        (b"\n", "not JSON"),
        (b"not json\n", "not JSON"),
        (b"[1]\n", "not a JSON object"),
        (line()[:-5], "not JSON"),
        (line() + b"{}", "not JSON"),
        (b"\xff\xfe\n", "not UTF-8"),
        (b'{"conversation": NaN}', "not JSON"),
        (b"[" * 1000, "nests deeper"),
        (
            b'{"conversation": 7, "conversation": 8, "seq": 0, "sender": "u", "at": "09:14", "text": "t"}',
            "twice",
        ),
        (line(conversation=None), "conversation"),
        (line(conversation=True), "conversation"),
        (line(conversation=1.5), "conversation"),
        (line(conversation=2**63), "conversation"),
        (line(conversation=""), "conversation"),
        (line(conversation="a b"), "conversation"),
        (line(conversation="x" * 257), "conversation"),
        (line(seq="0"), "seq"),
        (line(seq=-1), "seq"),
        (line(seq=False), "seq"),
        (line(seq=2**63), "seq"),
        (line(sender=""), "sender"),
        (line(sender=" user1"), "sender"),
        (line(sender=5), "sender"),
        (line(sender="x" * 257), "sender"),
        (line(at="24:00"), "at "),
        (line(at="9:14"), "at "),
        (line(at="09:14\n"), "at "),
        (line(at="٠٩:١٤"), "at "),
        (line(text=""), "text"),
        (line(text=None), "text"),
        (line(text="x" * 1_000_001), "text"),
        (line(text="x" * (1 << 20)), "longer than"),
    ],
)
def test_a_bad_line_is_a_value_with_its_reason(data: bytes, reason: str) -> None:
    found = parse_line(17, data)

    assert isinstance(found, BadLine)
    assert found.number == 17
    assert reason in found.reason


def test_a_missing_field_is_named() -> None:
    for name in GOOD:
        found = parse_line(1, json.dumps({key: value for key, value in GOOD.items() if key != name}).encode())

        assert isinstance(found, BadLine)
        assert found.reason.startswith(name)


def test_a_lone_surrogate_is_replaced() -> None:
    found = parse_line(1, line(text="x").replace(b'"x"', b'"\\ud83d"'))

    assert isinstance(found, ChatLine)
    assert found.text == "\ufffd"


@pytest.mark.parametrize("packed", [False, True])
def test_plain_and_gzip_are_told_by_content_not_by_name(tmp_path: Path, packed: bool) -> None:
    data = line(text="a") + b"broken\n" + line(text="b")
    path = tmp_path / ("log.jsonl" if packed else "log.jsonl.gz")
    path.write_bytes(gzip.compress(data) if packed else data)
    with open_log(path) as log:
        assert texts(log) == ["a", "bad 2", "b"]
        assert log.tail is None
        assert log.size_bytes == len(data)


def test_gzip_of_several_members(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(gzip.compress(line(text="a")) + gzip.compress(line(text="b")))
    with open_log(path) as log:
        assert texts(log) == ["a", "b"]


def test_truncated_gzip_keeps_its_whole_lines_and_counts_one_bad_line(tmp_path: Path) -> None:
    data = b"".join(line(text=f"{n} {'x' * 50}", seq=n) for n in range(2000))
    packed = gzip.compress(data)
    path = tmp_path / "log"
    path.write_bytes(packed[: len(packed) // 2])
    with open_log(path) as log:
        found = read_all(log)

        assert 0 < len(found) < 2000
        assert all(isinstance(item, ChatLine) for item in found)
        assert log.tail is not None
        assert log.tail.number == len(found) + 1
        assert "ends early" in log.tail.reason


def test_damaged_gzip_is_one_bad_line(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(line(text="x" * 500)))
    packed[-5] ^= 0xFF
    path = tmp_path / "log"
    path.write_bytes(packed)
    with open_log(path) as log:
        assert log.tail is not None


def test_unpacking_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MAX_UNPACKED_BYTES", 3 << 20)
    path = tmp_path / "log"
    path.write_bytes(gzip.compress(line() * 100_000))
    with open_log(path) as log:
        assert 1 << 20 < log.size_bytes <= 3 << 20
        assert log.tail is not None
        assert "unpacked" in log.tail.reason


def test_a_huge_line_is_refused_without_being_held(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("wb") as file:
        file.write(line(text="a"))
        for _ in range(64):
            file.write(b"x" * (1 << 20))
        file.write(b"\n" + line(text="b"))
    tracemalloc.start()
    try:
        with open_log(path) as log:
            found = texts(log)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert found == ["a", "bad 2", "b"]
    assert peak_bytes < 16 << 20


def test_lines_of_the_longest_length_and_one_more(tmp_path: Path) -> None:
    fits = b"x" * (1 << 20)
    path = tmp_path / "log"
    path.write_bytes(fits + b"\n" + fits + b"x\n" + line(text="b"))
    with open_log(path) as log:
        found = read_all(log)

    assert [item.reason[:8] for item in found if isinstance(item, BadLine)] == ["not JSON", "longer t"]
    assert isinstance(found[2], ChatLine)


def test_a_last_line_without_line_feed_is_a_line(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(line(text="a") + line(text="b").rstrip())
    with open_log(path) as log:
        assert texts(log) == ["a", "b"]


def test_an_empty_file_has_no_lines(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"")
    with open_log(path) as log:
        assert log.lines == 0
        assert log.lanes == []


def test_what_is_appended_after_opening_is_not_seen(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(line(text="a"))
    with open_log(path) as log:
        with path.open("ab") as file:
            file.write(line(text="b"))

        assert texts(log) == ["a"]


def test_the_digest_of_a_prefix_tells_a_grown_file_from_another(tmp_path: Path) -> None:
    path = tmp_path / "log"
    first = line(text="a") + line(text="b")
    path.write_bytes(first)
    with open_log(path) as log:
        digest = log.digest
    path.write_bytes(first + line(text="c"))
    with open_log(path, prefix_bytes=len(first)) as grown:
        assert grown.prefix_digest == digest
    path.write_bytes(line(text="A") + line(text="b") + line(text="c"))
    with open_log(path, prefix_bytes=len(first)) as other:
        assert other.prefix_digest != digest
    path.write_bytes(first.rstrip() + b" \n")
    with open_log(path, prefix_bytes=len(first)) as moved:
        assert moved.prefix_digest is None


def test_opening_can_be_given_up(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(gzip.compress(line() * 50_000))
    calls = 0

    def check() -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        open_log(path, check=check)


def test_a_missing_file_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        open_log(tmp_path / "none")
