"""The meaning of HTTP answers that are no streams.

Owns: status and error body -> `ProviderError`, for all wires. A body is never shown as it came: only the message field
of a JSON error is, shortened, and never for a refused key, since vendors quote parts of the key there.
"""

import re

import msgspec
from msgspec import Struct

from pattern_acp.config.settings import ProviderSettings
from pattern_acp.domain.errors import ProviderError
from pattern_acp.domain.late_pattern import late_pattern
from pattern_acp.providers.errors import (
    ContentFilteredError,
    ContextTooLongError,
    ProviderAuthError,
    ProviderOverloadedError,
    ProviderProtocolError,
    ProviderRequestError,
    ToolsRefusedError,
)

MESSAGE_CHARS = 300
"""A provider's reason is one sentence; some append the whole request."""

LONG_MS = 60_000
"""A wait for which one does more than to wait a moment."""

_TOO_LONG = late_pattern(
    r"context_length_exceeded|exceed_context_size|request_too_large|string_above_max_length|prompt is too long"
    r"|too many (input )?tokens|(maximum|max|available) context (length|size|window)"
    r"|(exceed\w*|longer than|larger than|beyond) (the )?(model'?s? )?(available |maximum |max )?context"
    r"|context (window|length|limit|size) (is |was )?exceed|input (is )?too long|exceeds? the maximum number of tokens"
    r"|input token count .{0,40}exceed|reduce the length of the (messages|prompt|input)",
    re.IGNORECASE,
)
"""The usual phrases and codes: OpenAI, Anthropic, llama-server, vLLM, LM Studio, OpenRouter, Gemini, Mistral."""

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


class _ErrorObject(msgspec.Struct):
    message: object = None
    type: object = None
    code: object = None
    status: object = None


class _ErrorBody(msgspec.Struct):
    error: _ErrorObject | str | None = None
    message: object = None
    amazons_message: object = msgspec.field(default=None, name="Message")
    detail: object = None
    type: object = None
    code: object = None


def parse_failure(body: bytes) -> Failure | None:
    """The error in a JSON body (also of one stream event), or None when the body is something else."""
    try:
        parsed = msgspec.json.decode(body, type=_ErrorBody)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    error = parsed.error
    if isinstance(error, _ErrorObject):
        kinds = (error.type, error.code, error.status)
        return Failure(_shorten(error.message), " ".join(str(kind) for kind in kinds if kind))
    kinds = (parsed.type, parsed.code)
    message = error or parsed.message or parsed.amazons_message or parsed.detail
    return Failure(_shorten(message), " ".join(str(kind) for kind in kinds if kind)) if message else None


def error_of_status(
    settings: ProviderSettings, model: str, status: int, body: bytes, retry_after_ms: int | None = None
) -> ProviderError:
    """The error for a status that is not 200."""
    failure = parse_failure(body)
    if status in {401, 403} or (failure is not None and _BAD_KEY.search(failure.message)):
        return _refused(settings, model, status, failure)
    text = f"{failure.kind} {failure.message}" if failure is not None else ""
    if failure is not None and (status < 500 or _TOO_LONG.search(text) or _NO_TOOLS.search(text)):
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
            f"{settings.name} answered with status {status} and no reason that can be read; check its base_url."
        )
    if status == 404:
        return ProviderRequestError(
            f"{settings.name} knows no model {model!r} at this address: {_scrub(failure.message, settings)} "
            "Choose another model or check the provider's base_url."
        )
    return ProviderRequestError(f"{settings.name} refused the request: {_scrub(failure.message, settings)}")


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
    text = failure.message if failure is not None else ""
    if status != 403 or not settings.host or _BAD_SIGNATURE.search(text):
        return auth_error(settings, status)
    # A cloud knows who asks, and does not let them: another token would change nothing.
    reason = _scrub(text, settings)
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
    text = f"{failure.kind} {failure.message}"
    if _TOO_LONG.search(text) and not _THROTTLED.search(text):
        return _too_long(settings, model)
    if _NO_TOOLS.search(text):
        return ToolsRefusedError(
            f"{settings.name}/{model} takes no tool calls; let it write them as text (/tools text)."
        )
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
