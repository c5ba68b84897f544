"""What an adapter promises of its sending side."""

from __future__ import annotations

from pathlib import Path

import trio

from ...actors.errors import Code, Permanence
from ..base import Adapter, NotSent, Outbound, Reconciles, SendOutcome, Sent, Uncertain
from .contract import ChannelContract, subfolder
from .reading import within

_MANY = 16


class SendsKit(ChannelContract):
    """Any adapter: `send`."""

    async def check_what_is_sent_is_delivered_once(self, folder: Path) -> None:
        """`send` answers Sent, and the platform has the text once, in that conversation, in order."""
        async with self.make(folder) as platform:
            adapter = platform.open()
            wanted: list[tuple[str, str]] = []
            for number, text in enumerate(["plain", "né 😀", "plain"]):
                for address in platform.addresses:
                    outcome = await send(adapter, outbound(adapter, address, text, f"{address}-{number}"))
                    assert isinstance(outcome, Sent), f"send answered {outcome}"
                    assert not outcome.deduped, "a first send was answered as a repeat"
                    wanted.append((address, text))
            assert list(platform.delivered()) == wanted

    async def check_sends_go_side_by_side(self, folder: Path) -> None:
        """As many sends as `caps.concurrency` allows may be under way at once, each with its own outcome."""
        async with self.make(folder) as platform:
            adapter = platform.open()
            addresses = platform.addresses
            # One at a time of each conversation, as the runtime does it.
            lanes = addresses[: min(self.caps.concurrency, _MANY)]
            wanted = [(address, f"text {number}") for address in lanes for number in range(3)]

            async def work(address: str) -> None:
                for where, text in wanted:
                    if where == address:
                        outcome = await send(
                            adapter, outbound(adapter, address, text, f"{address}-{text[-1]}")
                        )
                        outcomes.append(outcome)

            outcomes: list[SendOutcome] = []
            with within("sends that go side by side", self.caps.send_timeout_s):
                async with trio.open_nursery() as nursery:
                    for address in lanes:
                        nursery.start_soon(work, address)
            assert [outcome for outcome in outcomes if not isinstance(outcome, Sent)] == []
            found = list(platform.delivered())
            for address in lanes:
                assert [one for one in found if one[0] == address] == [
                    one for one in wanted if one[0] == address
                ]

    async def check_an_ordinary_failure_is_an_outcome(self, folder: Path) -> None:
        """What cannot be sent is NotSent or Uncertain, never an exception, and never Sent."""
        async with self.make(folder) as platform:
            adapter = platform.open()
            before = list(platform.delivered())
            platform.cut()
            outcome = await send(adapter, outbound(adapter, platform.addresses[0], "in vain", "cut"))
            assert not isinstance(outcome, Sent), "send answered Sent, and the platform was cut off"
            if isinstance(outcome, NotSent):
                assert isinstance(outcome.code, Code)
                assert outcome.permanence in (Permanence.TRANSIENT, Permanence.PERMANENT)
                assert outcome.retry_after_s is None or outcome.retry_after_s >= 0
            else:
                assert outcome.reason
            assert list(platform.delivered()) == before

    async def check_two_channels_send_apart(self, folder: Path) -> None:
        """Two of its kind in one process: each sends to its own platform, and knows its own sends alone."""
        async with self.make(subfolder(folder, 1)) as first, self.make(subfolder(folder, 2)) as second:
            adapters = [first.open(), second.open()]
            address = first.addresses[0]
            for adapter in adapters:
                outcome = await send(adapter, outbound(adapter, address, "the same", "same-key"))
                assert isinstance(outcome, Sent), f"send answered {outcome}"
                assert not outcome.deduped, "the other channel's send was taken for its own"
            await send(adapters[0], outbound(adapters[0], address, "for the first", "first-key"))
            assert list(first.delivered()) == [(address, "the same"), (address, "for the first")]
            assert list(second.delivered()) == [(address, "the same")]
            if self.caps.reconciles:
                there = await look_up(
                    adapters[1], outbound(adapters[1], address, "for the first", "first-key")
                )
                assert not isinstance(there, Sent), "the other channel's send was found"


class LookUpKit(ChannelContract):
    """An adapter that declares `reconciles`."""

    async def check_a_lookup_agrees_with_what_was_sent(self, folder: Path) -> None:
        """`reconcile` answers Sent for a send that was sent, by this adapter or the one before; else not."""
        async with self.make(folder) as platform:
            adapter = platform.open()
            address = platform.addresses[0]
            keys = ["key-12", "key-2-é", "key-3"]
            for key in keys:
                await send(adapter, outbound(adapter, address, f"text of {key}", key))
            for is_new in (False, True):
                opened = platform.open() if is_new else adapter
                for key in keys:
                    found = await look_up(opened, outbound(opened, address, f"text of {key}", key))
                    assert isinstance(found, Sent), f"{key} was sent, and reconcile answered {found}"
                # Keys that are part of others, and a text that was sent under another key.
                for key in ("key-1", "ey-12", "2", "key-4"):
                    found = await look_up(opened, outbound(opened, address, "text of key-12", key))
                    assert not isinstance(found, Sent), f"{key} was never sent, and reconcile answered Sent"
            assert len(platform.delivered()) == len(keys), "a look-up sends nothing"


class RepeatsKit(ChannelContract):
    """An adapter that declares `deduplicates`."""

    async def check_a_repeat_is_answered_as_deduped(self, folder: Path) -> None:
        """A second send with a known key is Sent(deduped=True) and delivers nothing; another key delivers."""
        async with self.make(folder) as platform:
            adapter = platform.open()
            address = platform.addresses[0]
            first = await send(adapter, outbound(adapter, address, "once", "key-12"))
            assert isinstance(first, Sent), f"send answered {first}"
            assert not first.deduped, "a first send was answered as a repeat"
            for attempt in (2, 3):
                adapter = adapter if attempt == 2 else platform.open()
                again = await send(adapter, outbound(adapter, address, "once", "key-12", attempt=attempt))
                assert isinstance(again, Sent), f"a repeat was answered with {again}"
                assert again.deduped, "a repeat was answered as if it were new"
            assert list(platform.delivered()) == [(address, "once")]
            other = await send(adapter, outbound(adapter, address, "once", "key-1"))
            assert isinstance(other, Sent), f"send answered {other}"
            assert not other.deduped, "another key was taken for a repeat"
            assert list(platform.delivered()) == [(address, "once")] * 2


def outbound(adapter: Adapter, address: str, text: str, key: str, *, attempt: int = 1) -> Outbound:
    """A send as the runtime makes it."""
    return Outbound(
        id=1,
        channel=adapter.name,
        conversation_key=f"{adapter.prefix}:{address}",
        address=address,
        text=text,
        idempotency_key=key,
        part=0,
        claim=attempt,
        attempt=attempt,
    )


async def send(adapter: Adapter, out: Outbound) -> SendOutcome:
    """One send, which has to answer with an outcome, in the time its caps give it."""
    failed: Exception | None = None
    answer: object = None
    with within("a send", adapter.caps.send_timeout_s):
        try:
            answer = await adapter.send(out)
        except Exception as error:
            failed = error
    if failed is not None:
        raise AssertionError(f"send raised {failed!r}") from failed
    assert isinstance(answer, Sent | NotSent | Uncertain), f"send answered {answer!r}, which is no outcome"
    return answer


async def look_up(adapter: Adapter, out: Outbound) -> Sent | NotSent | None:
    """One look-up, which has to answer with an outcome or None."""
    assert isinstance(adapter, Reconciles)
    answer: object = None
    with within("a look-up", adapter.caps.send_timeout_s):
        answer = await adapter.reconcile(out)
    assert answer is None or isinstance(answer, Sent | NotSent), f"reconcile answered {answer!r}"
    return answer
