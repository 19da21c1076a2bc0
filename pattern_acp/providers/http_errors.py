"""Errors of model requests, and the meaning of HTTP answers that are no streams.

Owns: status and error body -> `ProviderError`, for all wires. A body is never shown as it came: only the message field
of a JSON error is, shortened, and never for a refused key, since vendors quote parts of the key there. Messages are
sentences for the user and never contain a key.
"""

import re
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from pattern_acp.config.settings import ProviderSettings
from pattern_acp.domain.errors import ProviderError
from pattern_acp.domain.late_pattern import late_pattern
from pattern_acp.providers.wire_json import is_list, is_object


class ProviderConnectionError(ProviderError):
    """The provider could not be reached, or the connection broke before any content."""

    failure_code = "provider.unreachable"


class ProviderStalledError(ProviderError):
    """The first byte, or the next one, did not come within its limit."""

    failure_code = "provider.stalled"


class ProviderTooSlowError(ProviderError):
    """The answer came steadily and took longer in all than one may."""

    failure_code = "provider.too-slow"


class ProviderOverloadedError(ProviderError):
    """Rate limited, overloaded or broken on the provider's side (408, 409, 429, 5xx), also after retries.

    `retry_after_ms` is the wait that the provider asks for; None when it does not say. `attempts` are the most that
    it is worth, first one included; None for the usual number.
    """

    failure_code = "provider.overloaded"

    def __init__(self, sentence: str, retry_after_ms: int | None = None, *, attempts: int | None = None) -> None:
        super().__init__(sentence)
        self.retry_after_ms = retry_after_ms
        self.attempts = attempts


class NoModelLeftError(ProviderError):
    """The chosen model is out, and so is all that `fallback` names; the message has the reason of each."""

    failure_code = "provider.no-model-left"


class ProviderAuthError(ProviderError):
    """The key is missing or was refused. Becomes JSON-RPC -32000."""

    failure_code = "provider.key-refused"


class ProviderRequestError(ProviderError):
    """The provider rejects the request as wrong (unknown model, bad parameter). `status` is that of HTTP, if any."""

    failure_code = "provider.request-refused"

    def __init__(self, sentence: str, status: int = 0) -> None:
        super().__init__(sentence)
        self.status = status


class UnusableModelError(ProviderRequestError):
    """The settings name no such provider, or no model; nothing was sent."""

    failure_code = "config.unusable"


class ModelMismatchError(ProviderRequestError):
    """The model is another vendor's than the one that would be asked; nothing was sent."""

    failure_code = "provider.model-mismatch"


class ToolsRefusedError(ProviderRequestError):
    """The model takes no tools; it may take the same request without them."""

    failure_code = "provider.tools-refused"


class ImagesRefusedError(ProviderRequestError):
    """The model takes no images; it may take the same request with words in their place."""

    failure_code = "provider.images-refused"


class ContextTooLongError(ProviderError):
    """The request is longer than the model's window."""

    failure_code = "provider.context-too-long"


class ProviderProtocolError(ProviderError):
    """The answer is not in the wire's format (HTML, broken JSON). `status` is that of HTTP, if it is a fault."""

    failure_code = "provider.answer-garbled"

    def __init__(self, sentence: str, status: int = 0) -> None:
        super().__init__(sentence)
        self.status = status


EMPTY = "ended without an answer"
"""Words of every sentence about an empty answer, by which a replay knows it too."""


class EmptyAnswerError(ProviderError):
    """The model ended without text and without a call."""

    failure_code = "provider.answer-empty"


class ContentFilteredError(ProviderError):
    """The provider's filter refused the request itself; a filtered answer is a `Stopped` event instead."""

    failure_code = "provider.prompt-filtered"


MESSAGE_CHARS = 300
"""A provider's reason is one sentence; some append the whole request."""

LONG_MS = 60_000
"""A wait for which one does more than to wait a moment."""

_TOO_LONG = late_pattern(
    r"context_length_exceeded|exceed_context_size|request_too_large|string_above_max_length"
    r"|max_prompt_tokens_exceeded|prompt (is )?too long|tokens? too long"
    r"|too many (input |total )?(text )?(tokens|bytes)"
    r"|(maximum|max|available) (context|prompt|model) (length|size|window)"
    r"|(exceed\w*|longer than|larger than|greater than|beyond) (the )?(model'?s? )?(available |maximum |max )?context"
    r"|context (window|length|limit|size) (is |was )?exceed|context the overflows"
    r"|input (is )?too (long|large)|(maximum|max) input (length|tokens|characters)"
    r"|(input|prompt|decoder prompt).{0,20} length .{0,40}(exceed|must be|longer than|should be)"
    r"|length of (the )?(prompt|input)\w*.{0,40}(exceed|must be|longer than|should be)"
    r"|range of input length|prompt exceeds max length|max_seq_len"
    r"|exceed\w* (the )?(model )?(maximum |max )?(number of tokens|token limit)"
    r"|exceed\w* max(imum)? (message|input|prompt|allowed input) ?tokens?"
    r"|(input|prompt) tokens? .{0,40}exceed|prompt_tokens .{0,40}(exceed|must be)"
    r"|(input|prompt) exceeds? the maximum length"
    r"|maximum number of tokens is|`?inputs`? (tokens \+|must have less than)"
    r"|reduce the length of (the|your) (messages|prompt|input)",
    re.IGNORECASE,
)
"""The usual phrases and codes of vendors, servers and gateways; the test of this module has a sentence of each."""

_TOO_LARGE = late_pattern(r"request (is )?too large", re.IGNORECASE)
"""OpenAI's and Groq's words, with status 429 or 413, for one request that is more than a minute's tokens."""

_TOO_LONG_CODES = frozenset({"1261"})
"""Codes that are numbers: z.ai's."""

_NO_IMAGES = late_pattern(
    r"(not|n't|no endpoints found that) (currently )?(support|accept)s?( for)?:? (the )?(use of )?"
    r"(image|vision|multi-?modal)|image (input|content)s? (is|are) not (supported|allowed)|mmproj"
    r"|not a (vision|multi-?modal) model|missing data required for image|unknown variant .image_url",
    re.IGNORECASE,
)
"""Sentences in which servers refuse images for a model: llama-server, Ollama, OpenRouter, vLLM, DeepSeek."""

_NO_TOOLS = late_pattern(
    r"(does not|doesn't|not) support (the )?(use of )?(tools?|function)\b|support(s)? tool use"
    r"|(tools?|tool[ _-]?(use|choice|call(s|ing)?)|functions?|function[ _-]?call(s|ing)?)\W{0,2} (is|are) not "
    r"(supported|available|enabled)|tools? param requires|tool choice requires",
    re.IGNORECASE,
)
"""Sentences in which servers refuse tools for one of their models: Ollama, llama-server, vLLM, OpenRouter, Groq,
DeepSeek."""

_FILTERED = late_pattern(r"content_filter|content_policy|content management policy|responsible_?ai", re.IGNORECASE)
_OVERLOADED = late_pattern(
    r"overloaded|rate_limit|server_error|api_error|timeout|busy|unavailable|throttl|internalserver"
    r"|modelstreamerror|modelnotready",
    re.IGNORECASE,
)
_BAD_KEY = late_pattern(r"API_KEY_INVALID|api key not valid|api key expired", re.IGNORECASE)
"""Google answers a wrong key with status 400."""
_BAD_SIGNATURE = late_pattern(
    r"(security )?token.{0,40}(invalid|expired)|signature|(bearer|api key|access key).{0,40}(invalid|expired|not valid)"
    r"|invalid (api )?key",
    re.IGNORECASE,
)
"""Amazon answers credentials that are wrong or over with status 403, as it does what they may not do."""
_THROTTLED = late_pattern(r"throttl|too many (input )?tokens.{0,10}(wait|per (day|minute))", re.IGNORECASE)
"""Amazon's words for a rate of tokens that is used up, which others have for a prompt that is too long."""
_NO_MONEY = late_pattern(
    r"insufficient_quota|billing|credit balance|insufficient.{0,10}(credits|balance)", re.IGNORECASE
)


class Failure(Struct, frozen=True):
    """A failure as the provider describes it."""

    message: str = ""
    kind: str = ""
    """Type and code of the error, as far as the vendor sends them, joined by a space."""
    whole: str = ""
    """The message before it was shortened, by which its meaning is known; empty where it is the same."""

    @property
    def words(self) -> str:
        """All that its meaning is known by."""
        return f"{self.kind} {self.whole or self.message}"


_KINDS = ("type", "code", "status")
_REASONS = ("message", "Message", "msg", "detail", "error_description", "errors")
"""Keys of a reason, in the order in which they are believed."""
_INSIDE = ("raw", "error", "body", "upstream_error")
"""Keys below which gateways put the answer of the server behind them, in an object `metadata` or beside the reason."""
_MOST_NESTED = 6
_MOST_WORDS = 4_000


def parse_failure(body: bytes) -> Failure | None:
    """The error in a JSON body (also of one stream event), or None when the body is something else.

    The reason of the server behind a gateway counts, wherever the gateway put it.
    """
    try:
        parsed = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    if is_list(parsed):
        # Google's array around its error.
        parsed = next((item for item in parsed if is_object(item)), None)
    if not is_object(parsed) or not any(parsed.get(key) for key in ("error", *_REASONS)):
        return None
    message, kinds = _reason(parsed, 0)
    if not message and not is_object(parsed.get("error")):
        return None
    return Failure(_shorten(message), " ".join(dict.fromkeys(kinds)), message[:_MOST_WORDS])


def _reason(value: object, depth: int) -> tuple[str, list[str]]:
    """The innermost reason in `value` and the kinds on the way to it, the innermost first."""
    if depth > _MOST_NESTED:
        return "", []
    if isinstance(value, str):
        return _reason_in_text(value, depth)
    if is_list(value):
        found = [_reason(item, depth + 1) for item in value[:_MOST_NESTED]]
        texts = [message.rstrip(".") for message, _ in found if message]
        return "; ".join(texts), [kind for _, kinds in found for kind in kinds]
    if not is_object(value):
        return "", []
    own = [str(value[key]) for key in _KINDS if isinstance(value.get(key), str | int) and value[key]]
    metadata = value.get("metadata")
    inner = {**value, **{key: metadata.get(key) for key in _INSIDE}} if is_object(metadata) else value
    for key in _INSIDE:
        message, kinds = _reason(inner.get(key), depth + 1)
        if message or kinds:
            return message or _first_reason(value, depth)[0], [*kinds, *own]
    message, kinds = _first_reason(value, depth)
    return message, [*kinds, *own]


def _first_reason(value: Mapping[str, object], depth: int) -> tuple[str, list[str]]:
    for key in _REASONS:
        message, kinds = _reason(value.get(key), depth + 1)
        if message:
            place = value.get("loc")
            named = ".".join(map(str, place)) if is_list(place) else ""
            return (f"{named}: {message}" if named else message), kinds
    return "", []


def _reason_in_text(text: str, depth: int) -> tuple[str, list[str]]:
    """The reason in a text, which may be the JSON of another answer."""
    if text.lstrip()[:1] in {"{", "["}:
        try:
            parsed = msgspec.json.decode(text)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return text, []
        message, kinds = _reason(parsed, depth + 1)
        return message or text, kinds
    return text, []


def error_of_status(
    settings: ProviderSettings, model: str, status: int, body: bytes, retry_after_ms: int | None = None
) -> ProviderError:
    """The error for a status that is not 200."""
    failure = parse_failure(body)
    if status in {401, 403} or (failure is not None and _BAD_KEY.search(failure.words)):
        return _refused(settings, model, status, failure)
    text = failure.words if failure is not None else ""
    is_of_model = any(words.search(text) for words in (_TOO_LONG, _NO_TOOLS, _NO_IMAGES))
    if failure is not None and (status < 500 or is_of_model):
        special = _special(settings, model, failure)
        if special is not None:
            return special
    if status in {408, 409, 429} or status >= 500:
        return ProviderOverloadedError(_busy_sentence(settings.name, status, retry_after_ms), retry_after_ms)
    if status == 413:
        return _too_long(settings, model)
    if 300 <= status < 400:
        # Not followed: a key must not go to another address than its own.
        return ProviderRequestError(
            f"{settings.name} sends requests elsewhere (status {status}), which is not followed; put the address where "
            "it is now into its base_url."
        )
    if failure is None:
        return ProviderProtocolError(
            f"{settings.name} answered with status {status} and no reason that can be read; check its base_url.", status
        )
    if status == 404:
        return ProviderRequestError(
            f"{settings.name} knows no model {model!r} at this address: {_scrub(failure.message, settings)} "
            "Choose another model or check the provider's base_url."
        )
    return ProviderRequestError(f"{settings.name} refused the request: {_scrub(failure.message, settings)}", status)


def error_of_event(settings: ProviderSettings, model: str, failure: Failure) -> ProviderError:
    """The error for a failure that came inside a stream or with status 200."""
    special = _special(settings, model, failure)
    if special is not None:
        return special
    kind = failure.kind
    if "authentication" in kind or "permission" in kind:
        return auth_error(settings, None)
    if (
        _OVERLOADED.search(kind)
        or re.search(r"\b(408|409|429|5\d\d)\b", kind)
        or "overloaded" in failure.message.lower()
    ):
        return ProviderOverloadedError(f"{settings.name} is overloaded or has a fault; try again later.")
    return ProviderRequestError(f"{settings.name} reported an error: {_scrub(failure.message, settings)}")


def auth_error(settings: ProviderSettings, status: int | None) -> ProviderAuthError:
    """A missing or refused key; the sentence names where the key comes from, never the key."""
    variable = settings.api_key_env
    if settings.api_key is None:
        where = f"set {variable}" if variable else f"set api_key_env in [providers.{settings.name}] of config.toml"
        return ProviderAuthError(
            f"{settings.name} needs a key and none is configured; {where}, or run `pattern-acp auth login "
            f"{settings.name}`."
        )
    source = settings.api_key.source or variable or "the configuration"
    answered = f" (status {status})" if status else ""
    return ProviderAuthError(f"{settings.name} refused the key from {source}{answered}; put a valid key there.")


def _refused(settings: ProviderSettings, model: str, status: int, failure: Failure | None) -> ProviderError:
    if status != 403 or not settings.host or (failure is not None and _BAD_SIGNATURE.search(failure.words)):
        return auth_error(settings, status)
    # A cloud knows who asks, and does not let them: another token would change nothing.
    reason = _scrub(failure.message if failure is not None else "", settings)
    return ProviderRequestError(
        f"{settings.name} does not let this account use {model}: {reason} Enable the model for it, or choose another "
        "model or region."
    )


def not_a_stream(settings: ProviderSettings, content_type: str) -> ProviderProtocolError:
    """An answer with status 200 that is a web page or anything but a stream."""
    what = "a web page" if "html" in content_type else f"{content_type or 'something'}"
    return ProviderProtocolError(
        f"{settings.name} answered with {what} where a stream of events was expected; check its base_url."
    )


def broken_event(settings: ProviderSettings) -> ProviderProtocolError:
    """The error for a stream event that violates the wire's format."""
    return ProviderProtocolError(
        f"{settings.name} sent an event that is not in the format of its wire ({settings.wire}); "
        "check wire and base_url of the provider."
    )


def _special(settings: ProviderSettings, model: str, failure: Failure) -> ProviderError | None:
    text = failure.words
    if _TOO_LARGE.search(text):
        return ContextTooLongError(
            f"The request is larger than {settings.name} takes at once for {model}; use /compact, start a new session "
            "or choose another model."
        )
    is_too_long = _TOO_LONG.search(text) or not _TOO_LONG_CODES.isdisjoint(failure.kind.split())
    if is_too_long and not _THROTTLED.search(text):
        return _too_long(settings, model)
    if _NO_TOOLS.search(text):
        return ToolsRefusedError(
            f"{settings.name}/{model} takes no tool calls; let it write them as text (/tools text)."
        )
    if _NO_IMAGES.search(text):
        return ImagesRefusedError(f"{settings.name}/{model} takes no images; choose another model (/model).")
    if _FILTERED.search(text):
        return ContentFilteredError(f"The content filter of {settings.name} refused the request; word it differently.")
    if _NO_MONEY.search(text):
        return ProviderRequestError(
            f"{settings.name} says that the account has no credit or quota left; check its billing or choose another "
            "model."
        )
    return None


def _too_long(settings: ProviderSettings, model: str) -> ContextTooLongError:
    return ContextTooLongError(
        f"The conversation is longer than {settings.name}/{model} can read; start a new session or choose a model with "
        "a larger window."
    )


def time_in_words(milliseconds: int) -> str:
    """A duration for the user, rounded up: `12 s`, `5 min`, `3 h`."""
    seconds = -(-milliseconds // 1000)
    if seconds <= 90:
        return f"{seconds} s"
    minutes = -(-seconds // 60)
    return f"{minutes} min" if minutes <= 90 else f"{-(-minutes // 60)} h"


def _busy_sentence(name: str, status: int, retry_after_ms: int | None) -> str:
    if status == 429 and retry_after_ms is not None and retry_after_ms >= LONG_MS:
        words = time_in_words(retry_after_ms)
        return f"{name} limits the rate of requests (status 429) and takes more in {words}; choose another model."
    if status == 429:
        return f"{name} limits the rate of requests (status 429); wait a moment or choose another model."
    if status == 529:
        return f"{name} is overloaded (status 529); try again later or choose another model."
    return f"{name} has a fault on its side (status {status}); try again later or choose another model."


def _shorten(message: object) -> str:
    text = " ".join(str(message or "").split())
    if len(text) > MESSAGE_CHARS:
        text = text[:MESSAGE_CHARS].rstrip() + "…"
    return text if not text or text.endswith((".", "!", "?", "…")) else f"{text}."


def _scrub(message: str, settings: ProviderSettings) -> str:
    """The message without the key, should a server quote it, and without markup."""
    if settings.api_key is not None and settings.api_key.value:
        message = message.replace(settings.api_key.value, "••••")
    return "it gave no reason." if not message or "<html" in message.lower() else message
