"""The actor of one channel's sends: hands rows to the adapter and turns what happens into an outcome."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import trio

from ..actors.errors import Code
from ..storage.records import OnUncertain, OutboundContent
from .alarms import Alarms
from .breaker import Breaker
from .channel import Adapter, ChannelCaps, HasChats, NotSent, Reconciles, SendOutcome, Sent, Splits, Uncertain
from .degrade import NOT_NOW, answer_of_two, can_degrade
from .ephemeral import EphemeralActor
from .pauses import Pauses
from .pool import WorkerPool
from .rates import Chat
from .recipients import Recipients
from .retry import RetryPolicy
from .send import Send
from .send_answer import checked_answer, is_chat
from .send_breaker import SendBreaker
from .send_line import SendLine
from .send_outcome import SendPolicy
from .shard_messages import LookedUp, SendEnded

if TYPE_CHECKING:
    import structlog.typing

    from .tracing import Tracing

_OUTCOMES = (Sent, NotSent, Uncertain)


class DeliveryActor:
    """Sends the rows of one channel, at most `caps.concurrency` at once.

    Args:
        adapter: The channel.
        retry: How often and when a send that did not happen is tried again.
        alarms: Rings when a wait for a rate limit is over.
        log: For sends that raised.
        tracing: Entered around each send.
        breaker: When all sends pause because one conversation after another fails.
        count: Counts an event of the run.

    Attributes:
        line: Who may send next.
        ephemeral: Its ephemeral calls, if it has any.
        splits: The adapter, if it cuts long texts itself.
        recipients: Where their chats are, and who cannot be reached.
        one_part_chars: A text of at most so many characters is certainly sent in one part.
        on_stop: Called once if the channel refuses the bot's credentials.
    """

    def __init__(
        self,
        adapter: Adapter,
        *,
        retry: RetryPolicy,
        alarms: Alarms,
        log: structlog.typing.FilteringBoundLogger,
        tracing: Tracing | None = None,
        breaker: Breaker | None = None,
        count: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.adapter = adapter
        self.retry = retry
        self._tracing = tracing
        self.can_look_up = adapter.caps.reconciles and isinstance(adapter, Reconciles)
        self.splits: Splits | None = adapter if isinstance(adapter, Splits) else None
        # No character is longer than four bytes, whatever the channel counts in.
        self.one_part_chars = 0 if self.splits is not None else adapter.caps.max_text // 4
        self.pool: WorkerPool[Send] = WorkerPool(adapter.caps.concurrency, self._work)
        self.line: SendLine[Send] = SendLine(self.pool, adapter.caps.limits, self._chat_of, alarms)
        self.recipients: Recipients = Recipients(adapter.name, adapter.prefix)
        self.pauses = Pauses(adapter.name, self.line, self.stop)
        self.ephemeral: EphemeralActor | None = None
        self.on_stop: Callable[[], None] = _nothing
        self._chats: HasChats | None = adapter if isinstance(adapter, HasChats) else None
        self._has_told_chats = False
        self.breaker: SendBreaker | None = (
            None
            if breaker is None
            else SendBreaker(adapter.name, breaker, self.pool, self.line, alarms=alarms, count=count, log=log)
        )
        self._log = log.bind(channel=adapter.name)
        default = _default_policy(adapter.caps)
        self._policies = {
            own: SendPolicy(retry, own or default, self.can_look_up) for own in (None, *OnUncertain)
        }

    def policy_of(self, content: OutboundContent) -> SendPolicy:
        """What decides over the outcome of a send: the message's own policy goes before the channel's."""
        return self._policies[content.on_uncertain]

    def stop(self) -> None:
        """Send nothing any more: the channel refuses the bot's credentials. What waits stays where it is."""
        if not self.line.is_stopped:
            self.line.stop()
            self._log.error("channel.stopped", bus_error_code=str(Code.BAD_TOKEN), waiting=self.line.waiting)
            self.on_stop()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Send until cancelled; a send under way is then cancelled, and nobody knows whether it went out."""
        await self.pool.run(task_status=task_status)

    async def _work(self, send: Send) -> None:
        if not send.is_lookup:
            if self._tracing is None:
                answer = send.answer = await self.adapter.send(send.outbound)
                # Typed, yet what an adapter really answers is looked at only later.
                if not isinstance(answer, Sent) and can_degrade(answer, self.adapter.caps):
                    await self._send_degraded(send, answer)
            else:
                with self._tracing.send(send.outbound):
                    answer = send.answer = await self.adapter.send(send.outbound)
                    if can_degrade(answer, self.adapter.caps):
                        await self._send_degraded(send, answer)
        elif isinstance(self.adapter, Reconciles):
            send.answer = await self.adapter.reconcile(send.outbound)
            send.is_answered = True

    async def _send_degraded(self, send: Send, first: NotSent) -> None:
        """Send once more, without what the platform refused; where that is refused too, the first refusal stands."""
        send.degraded = first.degrade
        # Cut off in the second call, nobody knows: the first answer is none for it.
        send.answer = None
        send.answer = answer_of_two(first, await self.adapter.send(send.outbound))

    def _chat_of(self, conversation_key: str) -> Chat:
        address = self.recipients.address_of(conversation_key)
        return Chat(address) if self._chats is None else self._own_chat(self._chats, address)

    def _own_chat(self, chats: HasChats, address: str) -> Chat:
        """The chat as the adapter names it; one that it cannot name counts as its own."""
        try:
            chat: object = chats.chat_of(address)
            if is_chat(chat):
                return chat
            reason = f"answered {type(chat).__name__}"
        except Exception as error:
            reason = type(error).__name__
        if not self._has_told_chats:
            self._has_told_chats = True
            self._log.warning("chat.unnamed", reason=reason)
        return Chat(address)

    def conclude(self, send: Send, error: BaseException | None, *, timed_out: bool, cancelled: bool) -> None:
        """Report the end of a job to the shard. An answer in hand counts, however late it came."""
        if send.is_lookup:
            self._conclude_lookup(send, error, timed_out=timed_out, cancelled=cancelled)
            return
        outcome: SendOutcome
        answer: object = send.answer
        if isinstance(answer, _OUTCOMES):
            outcome = checked_answer(answer)
            if outcome is not answer:
                self._log.warning("send.answer_corrected", outbox_id=send.row.record.id)
        elif error is not None:
            self._log.warning("send.raised", outbox_id=send.row.record.id, error_type=type(error).__name__)
            outcome = Uncertain(type(error).__name__)
        elif cancelled:
            outcome = Uncertain("stopped while sending")
        elif timed_out:
            outcome = Uncertain("timed out")
        else:
            outcome = checked_answer(answer)
        if self.breaker is not None and not cancelled:
            self.breaker.ended(send, outcome)
        send.report(SendEnded(send, outcome))

    def _conclude_lookup(
        self, send: Send, error: BaseException | None, *, timed_out: bool, cancelled: bool
    ) -> None:
        answer = None if send.answer is None else checked_answer(send.answer)
        refusal: NotSent | None = None
        if isinstance(answer, NotSent) and answer.code in NOT_NOW:
            # The question was refused, which tells nothing of the send.
            failed, refusal = str(answer.code), answer
        elif send.is_answered and not isinstance(answer, Uncertain):
            send.report(LookedUp(send, answer, None))
            return
        else:
            failed = "timed out" if timed_out else "stopped" if error is None else type(error).__name__
        self._log.warning("send.lookup_failed", outbox_id=send.row.record.id, reason=failed)
        send.report(LookedUp(send, refusal, failed, is_cut_off=cancelled))


def _default_policy(caps: ChannelCaps) -> OnUncertain:
    """The channel's own word; else sent again where the channel drops the copy, or left to a person."""
    if caps.on_uncertain is not None:
        return OnUncertain(caps.on_uncertain)
    return OnUncertain.RESEND if caps.deduplicates else OnUncertain.PARK


def _nothing() -> None:
    """Nobody has to be told."""
