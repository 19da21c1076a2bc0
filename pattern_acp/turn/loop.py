"""Build, stream, run tools, repeat, until a stop reason."""

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import anyio
from msgspec import Struct, field
from msgspec.structs import replace

from pattern_acp.context.builder import add_context
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.argument_repair import meant_name
from pattern_acp.domain.clock import IdFactory, MessageId, ToolCallId, TurnId
from pattern_acp.domain.errors import PatternError, ProviderError, unwrap_exception_group
from pattern_acp.domain.messages import Message, Part, Role, TextPart, ToolCallPart
from pattern_acp.domain.tool_calls import StopReason
from pattern_acp.domain.untrusted_blocks import untrusted_line
from pattern_acp.domain.usage import Cost, Usage
from pattern_acp.journal.events import ContextAdded, MessageRecorded, ModelRequested, UsageReported
from pattern_acp.journal.turn_ends import TurnFailure
from pattern_acp.providers.base import WINDOW_FULL, ModelInfo, Provider, ProviderRequest, ProviderStop, Stopped
from pattern_acp.providers.history import CONTINUE_CUT_NOTE, CONTINUE_NOTE, CONTINUE_NOTES
from pattern_acp.providers.http_errors import (
    EMPTY,
    ContextTooLongError,
    EmptyAnswerError,
    ProviderProtocolError,
    ProviderRequestError,
    ProviderStalledError,
)
from pattern_acp.providers.retry import RetryPolicy, without_advice
from pattern_acp.turn.budget import CUT_STOP, UNREAD_STOP, Budget
from pattern_acp.turn.recorder import CLEANUP_SECONDS, NewEvent, TextStreamed, TurnRecorder
from pattern_acp.turn.request_fingerprints import RequestDigests
from pattern_acp.turn.stream_reader import MessageAssembly, new_assembly, read_stream, think_aloud

if TYPE_CHECKING:
    from pattern_acp.turn.tool_runner import ToolRunner


class TurnWindow(Protocol):
    """Watches over what is sent."""

    def sending(self, request: ProviderRequest) -> int:
        """Take note of a request that is about to be sent; its tokens by our own estimate."""
        ...

    def sent_tokens(self) -> int:
        """The tokens of the request that was sent last, as counts so far teach."""
        ...

    def counted(self, usage: Usage) -> None:
        """Take note of what the provider counted for the request that was sent last."""
        ...

    async def too_long(self) -> bool:
        """Make space, since the provider refused the last request as too long; whether that could be done.

        Raises:
            DatabaseError: it could not be recorded; the turn stops.
        """
        ...


MIN_LOOK_SECONDS = 0.2
"""Seconds between checks of the time when the limit is near and the user is being asked."""

LIMIT_REACHED = TurnFailure("turn.limit-reached")

OUT_OF_TIME = "The turn reached its limit of time before this call ended."


class TurnEnd(Struct, frozen=True):
    """End of a turn; `sentence` gives the reason when that is not plain."""

    stop_reason: StopReason
    sentence: str = ""
    was_cut: bool = False
    """True when something was cut off, so that only the journal knows its outcome."""
    failure: TurnFailure | None = None
    """The failure; None for a turn that ended normally, or was cancelled."""
    handed_over: bool = False
    """True when it ended between two tool calls for the next prompt."""


HANDED_OVER = TurnEnd(StopReason.END_TURN, handed_over=True)


class ModelInUse(Struct, frozen=True):
    """The provider and model that a request goes to."""

    provider: Provider
    info: ModelInfo


class CallIds(Struct, frozen=True):
    """Ids for calls: `used` are those of all calls of the session, to which the loop adds.

    With `always_own`, every call gets an id of ours: turns that run side by side must not share any.
    """

    used: set[ToolCallId] = field(default_factory=set[ToolCallId])
    always_own: bool = False


_USABLE_ID = re.compile(r"[!-~]{1,256}")

BuildRequest = Callable[[Sequence[Message]], Awaitable[ProviderRequest]]
"""Builds the request from the history so far; asked again for every request, since memory may have changed."""

BYTES_PER_TOKEN = 4
"""Estimate for an answer that was cut before its provider counted it."""

BAD_REQUEST = 400
"""The status of HTTP with which servers refuse a request that is too long, in words that not everybody knows."""

NEARLY_FULL_PERCENT = 60
"""Share of the window, by our own estimate, from which on such a refusal is taken for one of length, once. As
conversations are compacted at about three quarters of the window, this is four fifths of what they come to."""

EMPTY_ATTEMPTS = 3
"""Attempts at an answer that ends well and without a word."""

STALLED = ProviderStalledError | EmptyAnswerError
"""Failures of a provider that had taken the request."""


class RequestGate(Protocol):
    """Checks requests against budgets."""

    async def before_request(self, info: ModelInfo, request: ProviderRequest) -> TurnEnd | None:
        """Check a request before it is sent: None allows it, anything else ends the turn.

        Raises:
            DatabaseError: it could not be found out.
        """
        ...

    async def after_request(self) -> None:
        """The request has ended, and what it used is recorded; or it was not sent."""
        ...


GOES_ON = "The model is asked to continue."
"""Sentence that follows the reason, for the user, when an answer stopped and the turn continues on its own."""

BROKE = "The connection to the model broke."

CUT = "The answer reached the limit of tokens for one answer."
"""The reason when the limit cut it; a replay knows by it that the answer was cut and did not break off."""

TOLD_AGAIN = "_told_again"
"""Suffix of the id of that sentence, after the id of the answer that stopped."""

BROKEN_STREAM, CUT_ANSWER = "a broken stream", "a cut answer"
"""The source of the note to the model then."""

BEGIN_AGAIN = "The connection broke before your answer came; the user has read nothing of it. Answer again."
"""Note to the model when it had only reasoned, which is not sent back."""

ANSWER_NOW = "Your last message had reasoning and no answer; the user has read nothing of it. Answer, or call a tool."
"""Note to the model when it had only reasoned and ended so."""


ANSWER_SOONER = (
    "Your last answer reached its limit of tokens before its first word; the user has read nothing of it. Reason less, "
    "and answer or call a tool."
)
"""Note to the model when the limit cut it while it reasoned."""


class Resumption(Protocol):
    """Decides whether the model is asked to continue with an answer that stopped in the middle."""

    def goes_on(self, breaks: int) -> bool:
        """True when the model is asked to continue after so many answers in a row that broke off; 0 after a cut one."""
        ...

    async def pause(self, breaks: int) -> None:
        """Wait until it is time to ask."""
        ...


class StreamRetries(Struct, frozen=True):
    """`Resumption` that continues `most` times in a row, after longer and longer pauses."""

    most: int
    policy: RetryPolicy

    def goes_on(self, breaks: int) -> bool:
        """See `Resumption.goes_on`."""
        return breaks <= self.most

    async def pause(self, breaks: int) -> None:
        """See `Resumption.pause`."""
        if breaks:
            await self.policy.sleep(self.policy.backoff_ms(breaks) / 1000)


class _Answer(Struct, frozen=True):
    """Result of a request, and its message as it is recorded."""

    assembly: MessageAssembly
    message: Message


class TurnLoop:
    """Runs one turn. `history` is the session's conversation; the loop appends what the model must remember."""

    def __init__(
        self,
        *,
        model: ModelInUse,
        build: BuildRequest,
        new_runner: "Callable[[], Awaitable[ToolRunner]]",
        recorder: TurnRecorder,
        ids: IdFactory,
        budget: Budget,
        call_ids: CallIds | None = None,
        digests: RequestDigests | None = None,
    ) -> None:
        """Take the parts of a turn.

        `new_runner` is asked for the runner when the model makes a call. `digests` are those of the conversation,
        where more turns of it come; parts of requests are recorded then.
        """
        self._model = model
        self._build = build
        self._new_runner = new_runner
        self._runner: ToolRunner | None = None
        self._recorder = recorder
        self._ids = ids
        self._budget = budget
        self._call_ids = call_ids or CallIds()
        self._records_parts = digests is not None
        self._digests = digests or RequestDigests()
        self._number = 0
        self._unread = 0
        self._cut = 0
        self.window: TurnWindow | None = None
        """The watch over the size of requests, if any."""
        self.gate: RequestGate | None = None
        """The check of requests against budgets, if any."""
        self.hands_over: Callable[[], bool] = lambda: False
        """Tells, before each request, whether the turn ends here for the next prompt, which steers the work."""
        self.resumption: Resumption | None = None
        """Policy for answers that break off; None: the turn ends there."""
        self._breaks = 0
        self._has_words = False
        """True once the user has read part of an answer that stopped in the middle."""

    async def run(self, turn_id: TurnId, history: list[Message]) -> TurnEnd:
        """Continue until the turn ends.

        Raises:
            ProviderError: the model could not be used.
            DatabaseError: the journal could not be written; nothing more was shown.
        """
        self._budget.begin()
        end: TurnEnd | None = None
        reached = ""
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._end_in_time, tasks.cancel_scope)
                while end is None and not (reached := self._budget.used_up()):
                    end = HANDED_OVER if self.hands_over() else await self._one_request(turn_id, history)
                if end is None:
                    sentence = f"This turn reached {reached}; send another prompt to continue."
                    end = TurnEnd(StopReason.MAX_TURN_REQUESTS, sentence, failure=LIMIT_REACHED)
                tasks.cancel_scope.cancel()
        except BaseExceptionGroup as group_error:
            raise unwrap_exception_group(group_error) from group_error
        if end is None:
            reached = f"its limit of {self._budget.limits.seconds} seconds"
            sentence = f"This turn reached {reached} and was ended in the middle; send another prompt to continue."
            return TurnEnd(StopReason.MAX_TURN_REQUESTS, sentence, was_cut=True, failure=LIMIT_REACHED)
        return end

    async def _end_in_time(self, scope: anyio.CancelScope) -> None:
        # What the user takes to answer does not count, so the end moves; it is looked at again when it was due.
        while (left := self._budget.seconds_left) >= 0:  # noqa: ASYNC110
            await anyio.sleep(max(left, MIN_LOOK_SECONDS))
        if self._runner is not None:
            self._runner.cancel_reason = OUT_OF_TIME
        scope.cancel()

    async def _one_request(self, turn_id: TurnId, history: list[Message]) -> TurnEnd | None:
        self._number += 1
        self._budget.take_request()
        asked: _Answer | TurnEnd | None = None
        try:
            asked = await self._ask(turn_id, self._number, history)
        except (ContextTooLongError, ProviderRequestError, ProviderProtocolError) as error:
            if self.window is None or not self._may_be_too_long(error) or not await self.window.too_long():
                raise
        except EmptyAnswerError:
            if self._has_words:
                # Only the end of the answer was lost, and the model has nothing to add to its words.
                return TurnEnd(StopReason.END_TURN)
            raise
        if asked is None:
            # Once only: what is too long after that is too long for good.
            asked = await self._ask(turn_id, self._number, history)
        return asked if isinstance(asked, TurnEnd) else await self._after_answer(turn_id, asked, history)

    def _may_be_too_long(self, error: ProviderError) -> bool:
        """Return whether a request was too long: its provider says so, or refuses one that nearly fills the window."""
        if isinstance(error, ContextTooLongError):
            return True
        is_refused = isinstance(error, ProviderRequestError | ProviderProtocolError) and error.status == BAD_REQUEST
        nearly_full = self._model.info.context_window * NEARLY_FULL_PERCENT // 100
        return is_refused and self.window is not None and self.window.sent_tokens() > nearly_full

    async def _ask(self, turn_id: TurnId, number: int, history: list[Message]) -> _Answer | TurnEnd:
        request = await self._build(history)
        try:
            if self.gate is not None:
                end = await self.gate.before_request(self._model.info, request)
                if end is not None:
                    return end
            await self._record_request(turn_id, number, request)
            assembly = new_assembly(self._ids, f"{self._model.provider.name}/{request.model}")
            try:
                await read_stream(self._model.provider, request, assembly, self._recorder, turn_id)
            except EmptyAnswerError as error:
                if self._has_words or not self._may_go_on(self._breaks + 1, EMPTY_ATTEMPTS):
                    await self._record_cut(turn_id, assembly, history, error)
                    raise
                assembly.take(Stopped(ProviderStop.INTERRUPTED, error.sentence))
            except BaseException as error:
                # Cancelled or failed: what came is stored and marked, then the error continues.
                with anyio.CancelScope(shield=True), anyio.move_on_after(CLEANUP_SECONDS):
                    await self._record_cut(turn_id, assembly, history, error)
                raise
            return await self._recorded(turn_id, assembly, request, history)
        finally:
            if self.gate is not None:
                with anyio.CancelScope(shield=True), anyio.move_on_after(CLEANUP_SECONDS):
                    await self.gate.after_request()

    async def _record_request(self, turn_id: TurnId, number: int, request: ProviderRequest) -> None:
        known = self._digests.known(request, self._model.info.context_window)
        estimate = self.window.sending(request) if self.window is not None else 0
        requested = ModelRequested(
            turn_id,
            number,
            self._model.provider.name,
            request.model,
            known.digest,
            len(request.messages),
            known.size,
            estimate,
            known.parts if self._records_parts else None,
        )
        events = [NewEvent(requested, Actor.SYSTEM)]
        if self._records_parts and known.tools is not None:
            events.insert(0, NewEvent(known.tools, Actor.SYSTEM))
        # The prompt is in the journal before the first request leaves; the next ones follow within a second.
        await (self._recorder.record(*events) if number == 1 else self._recorder.record_soon(*events))
        self._digests.recorded()

    async def _record_cut(
        self, turn_id: TurnId, assembly: MessageAssembly, history: list[Message], error: BaseException
    ) -> None:
        message = assembly.message(with_calls=False)
        events: list[NewEvent] = []
        if message.parts:
            history.append(message)
            events.append(NewEvent(MessageRecorded(turn_id, message, complete=False)))
        # A provider that refused or could not be reached has used nothing; one that was cancelled has begun.
        has_begun = assembly.written_bytes or not isinstance(error, PatternError) or isinstance(error, STALLED)
        events += self._usage_events(turn_id, assembly, was_cut=bool(has_begun) and not assembly.is_waiting)
        if events:
            await self._recorder.record(*events)

    async def _recorded(
        self, turn_id: TurnId, assembly: MessageAssembly, request: ProviderRequest, history: list[Message]
    ) -> _Answer:
        interrupted, is_cut = (assembly.stop is stop for stop in (ProviderStop.INTERRUPTED, ProviderStop.MAX_TOKENS))
        if is_cut and assembly.usage.context_tokens >= self._model.info.context_window:
            # Few servers have a word of their own for it.
            assembly.detail = WINDOW_FULL
        # Whatever else ended the answer may have cut its calls too; the limit cuts the last one, and says so.
        with_calls = assembly.stop in {ProviderStop.END, ProviderStop.TOOL_CALLS, ProviderStop.MAX_TOKENS}
        cut_call = cutter(assembly, request) if is_cut else None
        message = assembly.message(with_calls=with_calls, cut_call=cut_call)
        if message.tool_calls:
            message = with_plain_names(message, [tool.name for tool in request.tools])
            message = with_unique_calls(message, self._call_ids.used, self._ids, all_new=self._call_ids.always_own)
        events: list[NewEvent] = []
        if message.parts:
            events.append(NewEvent(MessageRecorded(turn_id, message, complete=not interrupted)))
            history.append(message)
        events += self._usage_events(turn_id, assembly, was_cut=interrupted)
        # Its text was shown as it came; a call, or the turn's end, is shown only once all of it is recorded.
        await self._recorder.record_soon(*events)
        return _Answer(assembly, message)

    async def _after_answer(self, turn_id: TurnId, answer: _Answer, history: list[Message]) -> TurnEnd | None:
        message, stop = answer.message, answer.assembly.stop
        is_cut = stop is ProviderStop.MAX_TOKENS and not message.tool_calls
        if is_cut or stop is ProviderStop.INTERRUPTED:
            self._cut, self._breaks = (self._cut + 1, 0) if is_cut else (self._cut, self._breaks + 1)
            if self._cut >= CUT_STOP:
                return cut_end(f"{self._cut} answers of the model")
            goes_on = await self._go_on(turn_id, answer, history)
            return None if goes_on else end_of(stop, answer.assembly.detail)
        went_on, self._breaks, self._has_words = self._has_words, 0, False
        if message.tool_calls:
            return await self._run_tools(turn_id, message.tool_calls, history)
        if stop in {ProviderStop.END, ProviderStop.TOOL_CALLS} and not message.text.strip() and not went_on:
            raise EmptyAnswerError("The model ended without an answer; prompt again, or choose another model.")
        return end_of(stop, answer.assembly.detail)

    async def _go_on(self, turn_id: TurnId, answer: _Answer, history: list[Message]) -> bool:
        """Prepare to continue after an answer stopped: pause, and add a note for the model. False: the turn ends."""
        assembly, is_cut = answer.assembly, answer.assembly.stop is ProviderStop.MAX_TOKENS
        self._has_words = self._has_words or bool(answer.message.text.strip())
        is_final = assembly.is_final or assembly.detail == WINDOW_FULL
        if self.resumption is None or is_final or not self._may_go_on(self._breaks, assembly.attempts):
            return False
        reason = CUT if is_cut else without_advice(assembly.detail) or BROKE
        told_id = MessageId(f"{assembly.message_id}{TOLD_AGAIN}")
        await think_aloud(f"{reason} {GOES_ON}", told_id, self._recorder, turn_id)
        await self.resumption.pause(self._breaks)
        if answer.message.parts or is_cut:
            begin = ANSWER_SOONER if is_cut else ANSWER_NOW if EMPTY in assembly.detail else BEGIN_AGAIN
            go_on = CONTINUE_CUT_NOTE if is_cut else CONTINUE_NOTE
            note = go_on if self._has_words else str(untrusted_line("note", begin))
            told = Message(MessageId(self._ids.new("msg")), Role.USER, (TextPart(note),))
            source = CUT_ANSWER if is_cut else BROKEN_STREAM
            await self._recorder.record(NewEvent(ContextAdded(turn_id, told, (source,)), Actor.SYSTEM, Origin.AGENT))
            add_context(history, told)
        return True

    def _may_go_on(self, breaks: int, attempts: int | None) -> bool:
        """Return whether the model may be asked again after so many breaks, of `attempts` for the last one's reason."""
        is_bounded = attempts is not None and breaks >= attempts
        return self.resumption is not None and not is_bounded and self.resumption.goes_on(breaks)

    def _usage_events(self, turn_id: TurnId, assembly: MessageAssembly, *, was_cut: bool) -> list[NewEvent]:
        """Usage of a request: the provider's figures, or an estimate where it sent none or was cut before."""
        usage, cost, info = assembly.usage, assembly.cost, self._model.info
        is_told = usage != Usage()
        if is_told and self.window is not None:
            self.window.counted(usage)
        written = assembly.written_bytes // BYTES_PER_TOKEN
        # Anthropic tells the input at once, and what was written only at the end.
        is_estimated = assembly.is_untold or (was_cut and (not is_told or usage.output_tokens < written))
        if is_estimated:
            from pattern_acp.providers.catalogue import cost_of

            sent = Usage(self.window.sent_tokens() if self.window is not None else 0)
            usage = replace(usage if is_told else sent, output_tokens=written)
            cost = cost_of(assembly.info or info, usage)
        if usage == Usage():
            return []
        self._budget.take_usage(usage, cost)
        event = reported(turn_id, usage, cost, info, self._budget.cost_so_far)
        event = by_model(event, assembly.provider, assembly.info)
        return [NewEvent(replace(event, estimated=is_estimated), Actor.SYSTEM)]

    async def _run_tools(
        self, turn_id: TurnId, calls: Sequence[ToolCallPart], history: list[Message]
    ) -> TurnEnd | None:
        # Late: the first request leaves before there is a call.
        from pattern_acp.turn.tool_runner import was_cut

        self._budget.take_tool_calls(len(calls))
        runner = self._runner = await self._new_runner()
        results = await runner.run(turn_id, calls)
        history.append(Message(MessageId(self._ids.new("msg")), Role.TOOL, tuple(results)))
        self._cut = self._cut + 1 if any(map(was_cut, calls)) else 0
        if self._cut >= CUT_STOP:
            return cut_end(f"a call of the model in {self._cut} answers")
        self._unread = self._unread + 1 if all(call.problem for call in calls) else 0
        if self._unread >= UNREAD_STOP:
            sentence = f"Stopped: the model wrote actions that cannot be read {self._unread} times in a row. "
            return TurnEnd(StopReason.END_TURN, f"{sentence}Say it in smaller steps, or choose another model (/model).")
        if runner.not_agreed:
            return TurnEnd(StopReason.END_TURN, runner.not_agreed)
        if runner.stop:
            return TurnEnd(StopReason.END_TURN, f"A hook ended this turn: {runner.stop}")
        if stop := runner.repeats.stop:
            return TurnEnd(StopReason.END_TURN, stop, failure=TurnFailure("turn.repeating"))
        return None


def reported(
    turn_id: TurnId,
    usage: Usage,
    spent: Cost | None,
    info: ModelInfo,
    so_far: Cost | None,
    used: int | None = None,
) -> UsageReported:
    """The event of one request to a model; `used` are the tokens in context where those of the request are not."""
    context = usage.context_tokens if used is None else used
    prices = info.prices if spent is not None else ""
    return UsageReported(turn_id, usage, context, info.context_window, so_far, info.qualified, spent, prices)


def by_model(event: UsageReported, qualified: str, other: ModelInfo | None) -> UsageReported:
    """The event with the model that answered, `qualified`, and its prices, where another one stood in."""
    if qualified == event.model:
        return event
    return replace(event, model=qualified, prices=other.prices if other is not None and event.spent is not None else "")


def with_plain_names(message: Message, offered: Sequence[str]) -> Message:
    """The message with the name of a tool where a call has marks or a namespace around it, or writes it another way."""
    names = {call.name: meant_name(call.name, offered) for call in message.tool_calls if call.name not in offered}
    if not any(names.values()):
        return message
    parts = (
        replace(part, name=names.get(part.name) or part.name) if isinstance(part, ToolCallPart) else part
        for part in message.parts
    )
    return replace(message, parts=tuple(parts))


def with_unique_calls(message: Message, used: set[ToolCallId], ids: IdFactory, *, all_new: bool = False) -> Message:
    """The message with an id for each call that no other call of the session has; these are added to `used`.

    Small servers count calls again in every answer, or give no ids at all; results are paired by id, and ACP wants ids
    that are unique in a session, also when the model no longer sees the call that had it first. An id that is not
    short and printable is replaced too: it goes into many lines. With `all_new` every id is.
    """
    parts: list[Part] = []
    for part in message.parts:
        if not isinstance(part, ToolCallPart):
            parts.append(part)
            continue
        is_new = not all_new and _USABLE_ID.fullmatch(part.call_id) and part.call_id not in used
        call_id = part.call_id if is_new else ToolCallId(ids.new("call"))
        used.add(call_id)
        parts.append(replace(part, call_id=call_id))
    return replace(message, parts=tuple(parts))


def cutter(assembly: MessageAssembly, request: ProviderRequest) -> Callable[[str], str]:
    """Return a function that describes, by its tool's name, a call that the limit cut in the answer to `request`."""
    tokens = assembly.usage.output_tokens or request.max_output_tokens
    offered = {tool.name for tool in request.tools}
    window_full = assembly.detail == WINDOW_FULL

    def problem(name: str) -> str:
        # Late: few answers are cut.
        from pattern_acp.turn.tool_runner import cut_problem

        return cut_problem(name, tokens, offered, window_full=window_full)

    return problem


def cut_end(what: str) -> TurnEnd:
    """The turn's end after the limit of tokens cut this, one answer after the other."""
    sentence = f"Stopped: the limit of tokens cut {what} in a row. Ask for smaller steps, raise "
    advice = "`turn.max_output_tokens`, or choose a model with longer answers (/model)."
    return TurnEnd(StopReason.MAX_TOKENS, sentence + advice, failure=TurnFailure("provider.answer-cut"))


def end_of(stop: ProviderStop, detail: str) -> TurnEnd:
    """The turn's end for a message without calls."""
    match stop:
        case ProviderStop.MAX_TOKENS:
            sentence = detail or "The answer reached the model's output limit."
            return TurnEnd(StopReason.MAX_TOKENS, sentence, failure=TurnFailure("provider.answer-cut"))
        case ProviderStop.REFUSAL:
            sentence = detail or "The model refused to answer this."
            return TurnEnd(StopReason.REFUSAL, sentence, failure=TurnFailure("provider.model-refused"))
        case ProviderStop.CONTENT_FILTER:
            sentence = detail or "The provider's content filter stopped the answer."
            return TurnEnd(StopReason.REFUSAL, sentence, failure=TurnFailure("provider.answer-filtered"))
        case ProviderStop.INTERRUPTED:
            sentence = "The connection to the model broke; the answer above is incomplete. Prompt again to continue."
            return TurnEnd(StopReason.END_TURN, detail or sentence, failure=TurnFailure("provider.interrupted"))
        case ProviderStop.END | ProviderStop.TOOL_CALLS:
            return TurnEnd(StopReason.END_TURN)


def last_answer(history: Sequence[Message]) -> str:
    """The last words of the model in a conversation, with those before them where that answer stopped and continued."""
    answer, goes_back = "", True
    for message in reversed(history):
        if goes_back and message.role is Role.ASSISTANT:
            answer, goes_back = message.text + answer, not message.text.strip()
        elif answer.strip():
            goes_back = message.role is Role.USER and message.text in CONTINUE_NOTES
            if not goes_back:
                break
    return answer.strip()


async def show_sentence(recorder: TurnRecorder, turn_id: TurnId, ids: IdFactory, sentence: str) -> None:
    """Show a sentence of our own as a message that the model does not see.

    Clients join the text of messages that follow each other (acpx and Toad do), so the message brings its own break.
    """
    if recorder.follows_text:
        sentence = f"\n\n{sentence}"
    message = Message(MessageId(ids.new("msg")), Role.ASSISTANT, (TextPart(sentence),))
    await recorder.show(TextStreamed(message.message_id, sentence))
    await recorder.record(NewEvent(MessageRecorded(turn_id, message, for_model=False), Actor.SYSTEM, Origin.AGENT))
