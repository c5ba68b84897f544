"""Frozen values that are made for every message.

`value` is `attrs.frozen` for the type checkers, which refuse every assignment to a field. At run time it leaves the
guard out: a guarded field costs three times a plain one to set, and a message passes through some forty values
(docs/explanation/performance.md). Values that leave the runtime for user code are `attrs.frozen` in earnest.

`changed` is `attrs.evolve` for the type checkers; at run time it copies the whole record at once, which costs a
fifth. It is for values declared with `slots=False`; `changed_frozen` for those that are frozen at run time too. A value
of many fields is made the same way, out of one that has the defaults.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attrs import evolve as changed
    from attrs import evolve as changed_frozen
    from attrs import frozen as value
else:
    import functools

    import attrs

    value = functools.partial(attrs.define, unsafe_hash=True)

    def changed(record, **changes):
        """Make a copy with other values in the fields named."""
        copy = object.__new__(record.__class__)
        copy.__dict__ = record.__dict__ | changes
        return copy

    def changed_frozen(record, **changes):
        """Make a copy with other values in the fields named."""
        copy = object.__new__(record.__class__)
        object.__setattr__(copy, "__dict__", record.__dict__ | changes)
        return copy


__all__ = ["changed", "changed_frozen", "value"]
