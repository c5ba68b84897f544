"""The state of a conversation: its declared version, how a turn reads it, and what the turn's commit writes. Pure."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Final, cast

import attrs

from ..actors.codec import pack_plain, unpack_plain
from ..actors.errors import BusError, Code, Permanent
from ..actors.given import shown
from ..actors.plain import Plain, path_step
from ..storage.commands import StateWrite
from ..storage.port import StoredState
from .defaults import STATE_BYTES
from .turn_failure import failure_text

Upgrade = Callable[[dict[str, Plain], int], dict[str, Plain]]
"""Brings a state to the declared version: (the state, the version that wrote it) -> the new state."""

UPGRADE_CODE: Final = "x.state_upgrade"
"""The own code of messages that died because an upgrade hook failed: they are requeued by it after a fix."""

_MAX_VERSION: Final = 2**31 - 1
_ERROR_CHARACTERS: Final = 200


@attrs.frozen(kw_only=True)
class StateShape:
    """What a topology says of its conversations' state.

    Attributes:
        version: Stored beside each state.
        upgrade: Brings a state of an older version to this one; None at version 1, which has no older one.
    """

    version: int = 1
    upgrade: Upgrade | None = None


def declared_shape(version: int, upgrade: Upgrade | None) -> StateShape:
    """Check a declaration.

    Raises:
        BusError: INVALID_MESSAGE, the version is no integer from 1 on; a hook is missing, is async, or does not take a
            state and a version.
    """
    _check_version(version)
    if upgrade is None:
        if version > 1:
            raise BusError(
                Code.INVALID_MESSAGE,
                f"state version {version} needs upgrade=: states of older versions may be stored",
                version=version,
            )
    else:
        _check_hook(upgrade)
    return StateShape(version=version, upgrade=upgrade)


def read_state(stored: StoredState | None, shape: StateShape, key: str) -> dict[str, Plain]:
    """The state as the code of today knows it: a value of the turn's own, shared with nobody.

    Args:
        stored: As read from the store; None for a conversation without a state.
        shape: As declared.
        key: The conversation, for errors.
    Raises:
        BusError: STORE_MISMATCH, newer code wrote it; STORE_CORRUPT; HANDLER_FAILED with the own code
            `x.state_upgrade`, the hook failed. Nothing on disk changes.
    """
    if stored is None:
        return {}
    if stored.version > shape.version:
        raise BusError(
            Code.STORE_MISMATCH,
            f"the conversation's state has version {stored.version}, this code knows {shape.version}: run the newer "
            "code again, then requeue the message",
            setting="state_version",
            stored=stored.version,
            code=shape.version,
            key=key,
        )
    try:
        state = unpack_plain(stored.value, limit_bytes=STATE_BYTES)
    except BusError as error:
        raise BusError(Code.STORE_CORRUPT, f"the stored state: {error.message}", key=key) from error
    if not isinstance(state, dict):
        raise BusError(Code.STORE_CORRUPT, "the stored state is not a mapping", key=key)
    if stored.version == shape.version or shape.upgrade is None:
        return state
    return _upgraded(state, stored.version, shape.upgrade, key)


def state_write(
    key: str, state: dict[str, Plain], stored: StoredState | None, shape: StateShape
) -> StateWrite | None:
    """What a turn that touched the state writes: nothing if it stands so already; an empty state is removed.

    Raises:
        BusError: INVALID_MESSAGE for a value that cannot be stored, with its path; TOO_LARGE, with the sizes.
    """
    if not state:
        return None if stored is None else StateWrite(key, None, shape.version)
    packed = _packed(state, key)
    if stored is not None and stored.version == shape.version and stored.value == packed:
        return None
    return StateWrite(key, packed, shape.version)


def _packed(state: dict[str, Plain], key: str) -> bytes:
    try:
        return pack_plain(state, limit_bytes=STATE_BYTES, what="state")
    except BusError as error:
        size = error.context.get("size_bytes")
        if error.code is not Code.TOO_LARGE or size is None:
            raise
        limit = cast("int", size)
        part, largest = max(
            (len(pack_plain(one, limit_bytes=limit, what="state")), name) for name, one in state.items()
        )
        path = f"${path_step(largest)}"
        raise BusError(
            Code.TOO_LARGE,
            f"the state has {size} bytes, at most {STATE_BYTES}; {path} alone has {part}",
            key=key,
            path=path,
            path_bytes=part,
            size_bytes=size,
            limit_bytes=STATE_BYTES,
        ) from error


def _upgraded(state: dict[str, Plain], version: int, upgrade: Upgrade, key: str) -> dict[str, Plain]:
    name = getattr(upgrade, "__qualname__", type(upgrade).__name__)
    try:
        # Through its stored form: what a hook returns may be a value that it shares with other conversations.
        packed = _packed(_map(upgrade(state, version)), key)
    except Exception as error:
        reason = failure_text(error)[:_ERROR_CHARACTERS]
        raise Permanent(
            UPGRADE_CODE,
            f"the state's upgrade hook {name} failed on a state of version {version} ({reason}); correct it, then "
            "requeue the message",
            hook=name,
            version=version,
            key=key,
        ) from error
    return cast("dict[str, Plain]", unpack_plain(packed, limit_bytes=STATE_BYTES))


def _map(value: object) -> dict[str, Plain]:
    """Whatever a hook is declared to return; what the map holds is for packing to check."""
    if not isinstance(value, dict):
        raise TypeError(f"it returned {type(value).__name__}, not a dict")
    return cast("dict[str, Plain]", value)


def _check_version(version: object) -> None:
    if not isinstance(version, int) or isinstance(version, bool) or not 1 <= version <= _MAX_VERSION:
        raise BusError(
            Code.INVALID_MESSAGE,
            f"a state's version is an integer from 1 to {_MAX_VERSION}",
            given=shown(version),
        )


def _check_hook(upgrade: object) -> None:
    if not callable(upgrade) or inspect.iscoroutinefunction(upgrade):
        raise BusError(
            Code.INVALID_MESSAGE, "a state's upgrade hook is a plain function (state, from_version) -> state"
        )
    try:
        inspect.signature(upgrade).bind({}, 1)
    except TypeError as error:
        raise BusError(
            Code.INVALID_MESSAGE,
            "a state's upgrade hook takes two arguments: the state and the version that wrote it",
        ) from error
    except ValueError:
        return  # a callable in C that does not tell what it takes


__all__ = ["UPGRADE_CODE", "StateShape", "Upgrade", "declared_shape", "read_state", "state_write"]
