import copy
import re
from collections.abc import Callable

import pytest
import trio
import trio.testing

from shardline.actors.errors import (
    REGISTRY,
    BusError,
    Code,
    Permanence,
    Permanent,
    error_code_of,
    own_code_of,
    permanence_of,
)
from tests.kits.words import refused

TRANSIENT = {
    "ACTOR_FAILED",
    "ADAPTER_FAILED",
    "QUEUE_FULL",
    "HANDLER_TIMEOUT",
    "HANDLER_FAILED",
    "CIRCUIT_OPEN",
    "RATE_LIMITED",
    "BAD_TOKEN",
    "STORE_LOCKED",
    "STORE_BUSY",
    "STORE_FULL",
    "STORE_IO",
}
CONTRACT = """
    BUS_CLOSED NO_SUBSCRIBER QUEUE_FULL TOPIC_ALREADY_HANDLED TOPIC_FROZEN INVALID_MESSAGE INVALID_TOPIC
    IDEMPOTENCY_KEY_REQUIRED INVALID_TRANSITION IDENTITY_MISMATCH STALE_CLAIM FENCED HANDLER_TIMEOUT HANDLER_FAILED
    CRASH_LOOP HOP_LIMIT EXPIRED CIRCUIT_OPEN WOULD_DEADLOCK NOT_AUTHORIZED NOT_FOUND TOO_LARGE UNKNOWN_CHANNEL
    UNKNOWN_ADAPTER DELIVERY_PERMANENT DELIVERY_UNCERTAIN CONTENT_REFUSED RECIPIENT_BLOCKED RECIPIENT_NOT_FOUND
    NO_ACCESS BAD_TOKEN RATE_LIMITED STORE_LOCKED STORE_BUSY STORE_FULL STORE_IO STORE_CORRUPT STORE_MISMATCH
    SCHEMA_TOO_NEW UNSAFE_FILESYSTEM FORKED ACTOR_FAILED ADAPTER_FAILED WRONG_LOOP
"""


def test_registry_is_sorted_complete_and_unique() -> None:
    names = [entry.code.value for entry in REGISTRY]

    assert names == sorted(set(names))
    assert set(names) == set(CONTRACT.split()) == {code.value for code in Code}
    assert all(code.value == code.name for code in Code)


@pytest.mark.parametrize("code", Code)
def test_code_is_documented_in_sentences(code: Code) -> None:
    assert re.fullmatch(r"[A-Z][^\n]{10,}\.", code.meaning)
    assert re.fullmatch(r"[A-Z][^\n]{10,}\.", code.action)
    assert code.meaning != code.action


@pytest.mark.parametrize("code", Code)
def test_permanence_follows_the_contract(code: Code) -> None:
    expected = Permanence.PERMANENT
    if code.value in TRANSIENT:
        expected = Permanence.TRANSIENT
    if code is Code.DELIVERY_UNCERTAIN:
        expected = Permanence.UNCERTAIN

    assert code.permanence is expected


def test_bus_error_carries_fields_and_shows_no_context() -> None:
    error = BusError(Code.STORE_FULL, "the disk is full", path="/tmp/x", code="shadow", message="shadow")

    assert (error.code, error.message, error.own_code) == (Code.STORE_FULL, "the disk is full", None)
    assert error.context == {"path": "/tmp/x", "code": "shadow", "message": "shadow"}
    assert str(error) == "STORE_FULL: the disk is full"
    assert repr(error) == "BusError('STORE_FULL', 'the disk is full')"
    assert "shadow" not in str(error) + repr(error)


@pytest.mark.parametrize(
    "error",
    [
        BusError(Code.FENCED, "late", epoch=3),
        Permanent("x.no_text", "nothing", row=1),
        Permanent(Code.EXPIRED),
    ],
)
@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_error_survives_a_copy(error: BusError, copied: Callable[[BusError], BusError]) -> None:
    twin = copied(error)

    assert type(twin) is type(error)
    assert (twin.code, twin.own_code, twin.message, twin.context) == (
        error.code,
        error.own_code,
        error.message,
        error.context,
    )
    assert str(twin) == str(error)


def test_own_code_stands_for_handler_failed_and_is_kept() -> None:
    error = Permanent("x.no_text", "nothing to answer", row=7)

    assert (error.code, error.own_code) == (Code.HANDLER_FAILED, "x.no_text")
    assert error.context == {"row": 7}
    assert str(error) == "HANDLER_FAILED (x.no_text): nothing to answer"


def test_permanent_takes_a_code_of_ours() -> None:
    error = Permanent(Code.RATE_LIMITED, "never again")

    assert (error.code, error.own_code) == (Code.RATE_LIMITED, None)
    assert permanence_of(error) is Permanence.PERMANENT


@pytest.mark.parametrize(
    "own", ["", "x.", "no_text", "X.no_text", "x.No", "x. a", "x.a ", "x.a\n", "y.a", "NOT_FOUND", "x.é"]
)
def test_malformed_own_code_is_refused(own: str) -> None:
    with refused(Code.INVALID_MESSAGE):
        Permanent(own, "text")


def test_code_is_found_through_cause_and_context() -> None:
    caused = RuntimeError("outer")
    caused.__cause__ = BusError(Code.NOT_FOUND, "inner")
    happened = RuntimeError("outer")
    happened.__context__ = caused

    assert error_code_of(caused) is Code.NOT_FOUND
    assert error_code_of(happened) is Code.NOT_FOUND


def test_suppressed_context_is_not_followed() -> None:
    error = RuntimeError("outer")
    error.__context__ = BusError(Code.NOT_FOUND, "inner")
    error.__suppress_context__ = True

    assert error_code_of(error) is None


def test_cause_wins_over_context() -> None:
    error = RuntimeError("outer")
    error.__context__ = BusError(Code.NOT_FOUND, "inner")
    error.__cause__ = BusError(Code.STORE_IO, "inner")

    assert error_code_of(error) is Code.STORE_IO


def test_outermost_code_wins_in_a_chain() -> None:
    error = BusError(Code.STORE_IO, "outer")
    error.__cause__ = BusError(Code.NOT_FOUND, "inner")

    assert error_code_of(error) is Code.STORE_IO
    assert permanence_of(error) is Permanence.TRANSIENT


def test_permanent_code_wins_in_a_group_else_the_first() -> None:
    busy, io = BusError(Code.STORE_BUSY, ""), BusError(Code.STORE_IO, "")
    lost = BusError(Code.NOT_FOUND, "")

    assert error_code_of(ExceptionGroup("", [ValueError(), busy, io])) is Code.STORE_BUSY
    assert error_code_of(ExceptionGroup("", [busy, ExceptionGroup("", [io, lost])])) is Code.NOT_FOUND
    assert error_code_of(ExceptionGroup("", [busy, Permanent(Code.RATE_LIMITED)])) is Code.RATE_LIMITED


def test_code_is_found_behind_a_groups_member_and_behind_a_group() -> None:
    member = ValueError()
    member.__cause__ = BusError(Code.EXPIRED, "")
    group = ExceptionGroup("", [ValueError()])
    group.__cause__ = BusError(Code.FORKED, "")

    assert error_code_of(ExceptionGroup("", [member])) is Code.EXPIRED
    assert error_code_of(group) is Code.FORKED


@pytest.mark.parametrize(
    "exc", [None, ValueError("x"), KeyboardInterrupt(), ExceptionGroup("", [ValueError()])]
)
def test_foreign_exceptions_have_no_code(exc: BaseException | None) -> None:
    assert error_code_of(exc) is None
    assert own_code_of(exc) is None


def test_cycles_end() -> None:
    one, two = RuntimeError("1"), RuntimeError("2")
    one.__cause__, two.__cause__ = two, one
    group = ExceptionGroup("", [one])
    two.__cause__ = group

    assert error_code_of(one) is None
    assert permanence_of(one) is Permanence.TRANSIENT


async def test_cancellation_has_no_code(autojump_clock: trio.testing.MockClock) -> None:
    caught: list[trio.Cancelled] = []
    with trio.CancelScope() as scope:
        scope.cancel()
        try:
            await trio.lowlevel.checkpoint()
        except trio.Cancelled as cancelled:
            caught.append(cancelled)
            raise
    end = caught[0]
    end.__context__ = BusError(Code.NOT_FOUND, "what came before")

    assert error_code_of(end) is None
    assert own_code_of(end) is None
    assert permanence_of(end) is Permanence.TRANSIENT
    # The one that tells is found beside a cancellation.
    assert error_code_of(BaseExceptionGroup("", [end, BusError(Code.STORE_IO, "")])) is Code.STORE_IO


def test_permanence_of_anything() -> None:
    wrapped = BusError(Code.HANDLER_FAILED, "outer")
    wrapped.__cause__ = ExceptionGroup("", [ValueError(), Permanent("x.a")])

    assert permanence_of(wrapped) is Permanence.PERMANENT
    assert permanence_of(BusError(Code.DELIVERY_UNCERTAIN, "")) is Permanence.UNCERTAIN
    assert permanence_of(BusError(Code.NOT_FOUND, "")) is Permanence.PERMANENT
    assert permanence_of(ValueError()) is Permanence.TRANSIENT


def test_own_code_is_found_inside() -> None:
    wrapped = BusError(Code.HANDLER_FAILED, "outer")
    wrapped.__cause__ = ExceptionGroup("", [Permanent(Code.EXPIRED), Permanent("x.deep")])

    assert own_code_of(wrapped) == "x.deep"
    assert own_code_of(BusError(Code.EXPIRED, "")) is None
