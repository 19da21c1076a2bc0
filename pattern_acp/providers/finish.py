"""Reasons for the end of an answer, in the words of all vendors.

Owns: which words are a good end, a limit, a filter or a refusal. Servers and gateways mix the words of the vendors, so
one table serves every wire. Must not know: where a wire has the word. Any other word means that something broke: a
server that gives up says so in a word of its own, and half an answer must not pass for a whole one.
"""

from collections.abc import Mapping

from pattern_acp.config.settings import ProviderSettings
from pattern_acp.providers.base import WINDOW_FULL, ProviderStop, Stopped
from pattern_acp.providers.http_errors import EMPTY, EmptyAnswerError, ProviderOverloadedError

_WORD_CHARS = 60


def _plain(word: str) -> str:
    """The word without case, blanks and punctuation: `MAX_TOKENS`, `max-tokens` and `maxTokens` are one."""
    plain = "".join(char for char in word.lower() if char.isalnum())
    return plain.removeprefix("finishreason").removeprefix("stopreason")


def _plain_words(words: str) -> frozenset[str]:
    return frozenset(_plain(word) for word in words.split())


_ABSENT = _plain_words("null none unspecified undefined")
_GOOD = _plain_words(
    "stop stopped stop_sequence stop_token stop_string stop_string_found end end_turn eos eos_token eos_found normal "
    "complete completed done finished tool_call tool_calls tool_use function_call function_calls"
)
_LENGTH = _plain_words(
    "length max_length max_tokens max_tokens_reached max_output_tokens max_completion_tokens max_new_tokens "
    "max_predicted_tokens_reached token_limit error_limit limit model_length"
)
_WINDOW = _plain_words(
    "max_context_length context_length context_length_exceeded context_length_reached context_window_exceeded "
    "model_context_window_exceeded"
)
_REFUSED = _plain_words("refusal refused")
_FILTERED: Mapping[str, str] = {
    _plain(word): why
    for word, why in {
        "SAFETY": "for safety",
        "IMAGE_SAFETY": "for safety of an image",
        "RECITATION": "because it repeated protected text",
        "IMAGE_RECITATION": "because it repeated a protected image",
        "LANGUAGE": "because of its language",
        "BLOCKLIST": "because of a forbidden word",
        "PROHIBITED_CONTENT": "because of prohibited content",
        "IMAGE_PROHIBITED_CONTENT": "because of prohibited content in an image",
        "SPII": "because of personal data",
        "sensitive": "because of sensitive content",
        "MODEL_ARMOR": "by a filter of its account",
        "guardrail_intervened": "by a guardrail of its account",
        "guardrail": "by a guardrail of its account",
        "moderation": "by its moderation",
        "error_toxic": "because of toxic content",
        "content_filter": "",
        "content_filtered": "",
        "content_policy": "",
        "content_policy_violation": "",
    }.items()
}
"""Words of filters, with the reason in each."""
_BROKEN = _plain_words(
    "error errored server_error api_error internal_error network_error connection_error abort aborted cancelled "
    "canceled timeout insufficient_system_resource load overloaded rate_limit failed failure incomplete interrupted "
    "other"
)
"""Words of servers that gave up, which may do better the next time."""
UNREADABLE_ATTEMPTS = 3
"""Attempts at an answer whose call the server itself could not read."""
UNKNOWN_ATTEMPTS = 2
"""Attempts at an answer that ends for a reason that nobody knows: one that comes again is not a passing fault."""
_UNREADABLE = _plain_words(
    "MALFORMED_FUNCTION_CALL MALFORMED_TOOL_CALL MALFORMED_TOOL_USE UNEXPECTED_TOOL_CALL TOO_MANY_TOOL_CALLS "
    "MALFORMED_RESPONSE"
)


def finish_word(raw: object) -> str:
    """The reason that a server sends, or empty; some write `null` or `unspecified` as a word."""
    word = str(raw).strip() if raw else ""
    return "" if _plain(word) in _ABSENT else word


def filter_reason(word: str) -> str:
    """The reason of a filter, to follow a verb; empty when the word has none."""
    return _FILTERED.get(_plain(word), "")


def stop_for(
    settings: ProviderSettings, model: str, word: str, *, has_text: bool, has_calls: bool, detail: str = ""
) -> Stopped:
    """The last event of an answer that ended for the reason `word`.

    `word` is empty when the server ended its stream as it should and gave no reason. `detail` is the server's own
    sentence of a refusal.

    Raises:
        EmptyAnswerError: a good end, and there is no answer.
        ProviderOverloadedError: the word is no end that is known, so the answer is not whole.
    """
    plain = _plain(word)
    if not plain or plain in _GOOD:
        # The calls themselves count: many servers say "stop" after calls.
        if not has_calls and not has_text:
            raise EmptyAnswerError(f"{settings.name}/{model} {EMPTY}; try again.")
        return Stopped(ProviderStop.TOOL_CALLS if has_calls else ProviderStop.END)
    if plain in _WINDOW:
        return Stopped(ProviderStop.MAX_TOKENS, WINDOW_FULL)
    if plain in _LENGTH:
        return Stopped(ProviderStop.MAX_TOKENS, "The answer reached its limit of tokens.")
    if plain in _REFUSED:
        return Stopped(ProviderStop.REFUSAL, detail or "The model declined to answer.")
    if plain in _FILTERED:
        why = _FILTERED[plain]
        sentence = f"The provider stopped the answer {why}." if why else ""
        return Stopped(ProviderStop.CONTENT_FILTER, sentence or "The provider's content filter stopped the answer.")
    if plain == "pauseturn":
        return Stopped(ProviderStop.INTERRUPTED, "The provider paused a long answer.")
    if plain in _UNREADABLE:
        raise ProviderOverloadedError(
            f"{settings.name}/{model} wrote a tool call that cannot be read (finish reason {word[:_WORD_CHARS]!r}).",
            attempts=UNREADABLE_ATTEMPTS,
        )
    raise ProviderOverloadedError(
        f"{settings.name}/{model} did not finish its answer; the reason that it gives is {word[:_WORD_CHARS]!r}.",
        attempts=None if plain in _BROKEN else UNKNOWN_ATTEMPTS,
    )
