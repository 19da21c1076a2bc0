"""The log: one rotating file under the state directory, and warnings as single lines on stderr.

Owns: handlers, rotation, and leaving secrets and prompt text out. Must not know: what is logged. Nothing here writes to
stdout, which belongs to the protocol.

Nothing logs text of the user or the model, at any level.
"""

import logging
import re
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from pattern_acp.config.paths import LOG_FILE, make_private_directory, open_private_append
from pattern_acp.config.settings import LogLevel
from pattern_acp.domain.late_pattern import AnchoredPattern, late_pattern, without_case
from pattern_acp.domain.text_limits import plural

MAX_FILE_BYTES = 5_000_000
_MOST_FILES = 3
_MAX_MESSAGE_CHARS = 4000
"""A longer message is somebody's data rather than a message; what is past this is cut."""
_MAX_STDERR_CHARS = 400
"""Zed shows each line of stderr as a warning; reference/acp.md, Part 1, section 1."""

_SHORTEST_SECRET = 8
"""Masking shorter texts would garble the log, and they protect nothing."""

_MASK = "••••"
_BEFORE_KEYS = ("bearer ", "x-api-key: ", "api_key=")
_SHORTEST_KEY = 19
"""Characters of a key that its kind begins."""
_KEY_KINDS = ("sk", "pk", "rk", "xai", "gsk", "ghp", "gho", "github_pat", "hf", "aiza")
_KEY_FORMS = AnchoredPattern(
    late_pattern(
        r"\b(?:sk|pk|rk|xai|gsk|ghp|gho|github_pat|hf|AIza)[-_][A-Za-z0-9_-]{16,}"
        r"|(?i:(?<=bearer )|(?<=x-api-key: )|(?<=api_key=))[^\s\"',;]{8,}"
    ),
    [
        *((kind + "-", 0) for kind in _KEY_KINDS),
        *((kind + "_", 0) for kind in _KEY_KINDS),
        *((each, len(each)) for each in _BEFORE_KEYS),
    ],
    ignore_case=True,
)
"""Forms of keys that are masked although no setting holds them."""

_OUR_LOGGER = "pattern_acp"
"""Only our own records follow the chosen level; those of libraries are logged from warning on, for their debug records
have headers and bodies."""


class Redactor:
    """Masks known secrets and whatever looks like a key."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets: frozenset[str] = frozenset()
        self._known: re.Pattern[str] | None = None
        self.add(secrets)

    def add(self, secrets: Iterable[str]) -> None:
        """Mask these from now on, too."""
        found = self._secrets | {each for each in secrets if len(each) >= _SHORTEST_SECRET}
        if found == self._secrets:
            return
        self._secrets = found
        # The longest first: a secret may contain another one.
        self._known = re.compile("|".join(map(re.escape, sorted(found, key=len, reverse=True))))

    def mask(self, text: str) -> str:
        """`text` with every secret replaced."""
        # What a text does not hold is found faster than where it could be.
        if self._known is not None and any(secret in text for secret in self._secrets):
            text = self._known.sub(_MASK, text)
        return _KEY_FORMS.sub(_MASK, text)

    def is_needed(self, text: str) -> bool:
        """Tell whether anything in `text` may be replaced; False is sure."""
        if any(secret in text for secret in self._secrets):
            return True
        small = without_case(text)
        long = " ".join([word for word in small.split() if len(word) >= _SHORTEST_KEY])
        return any(map(small.__contains__, _BEFORE_KEYS)) or _KEY_FORMS.is_possible(long)


class _FileFormatter(logging.Formatter):
    """Time in UTC, level, logger, message and traceback, masked. The standard library asks for a subclass."""

    converter = time.gmtime

    def __init__(self, redactor: Redactor) -> None:
        super().__init__(
            "%(asctime)s.%(msecs)03dZ %(process)d %(levelname)s %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%S"
        )
        self.redactor = redactor

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the standard library's name
        record.message = _cut(record.message, _MAX_MESSAGE_CHARS)
        return super().formatMessage(record)

    def format(self, record: logging.LogRecord) -> str:
        return self.redactor.mask(super().format(record))


class _LineFormatter(logging.Formatter):
    """One short masked line without a traceback, for stderr."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self.redactor = redactor

    def format(self, record: logging.LogRecord) -> str:
        line = " ".join(self.redactor.mask(record.getMessage()).split())
        shown = "".join(each if each.isprintable() else "?" for each in _cut(line, _MAX_STDERR_CHARS))
        return f"pattern-acp: {record.levelname.lower()}: {shown}"


class RotatingFile(logging.Handler):
    """Appends to a file that several processes share.

    The file is opened for each record, so that a rotation by another process is followed and that Windows can rename
    the file. When it cannot be written, the log falls silent and `failure` says why: a full disk must not end a turn.
    """

    def __init__(self, path: Path, *, max_bytes: int = MAX_FILE_BYTES, kept_files: int = _MOST_FILES) -> None:
        super().__init__()
        self._path = path
        self._max_bytes = max_bytes
        self._kept_files = kept_files
        self.failure = ""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        try:
            data = f"{self.format(record)}\n".encode("utf-8", "backslashreplace")
            self._rotate_before(len(data))
            with open(self._path, "ab", opener=open_private_append) as file:
                file.write(data)
        except OSError as error:
            self.failure = error.strerror or type(error).__name__
        except (TypeError, ValueError) as error:
            # A record whose arguments do not fit its text; the program continues without it.
            self.failure = f"a record could not be formatted ({type(error).__name__})"

    def _rotate_before(self, size: int) -> None:
        try:
            if self._path.stat().st_size + size <= self._max_bytes:
                return
        except FileNotFoundError:
            return
        numbered = [self._path, *(self._path.with_name(f"{self._path.name}.{n}") for n in range(1, self._kept_files))]
        for older, newer in zip(reversed(numbered), reversed(numbered[:-1]), strict=False):
            try:
                newer.replace(older)
            except (FileNotFoundError, PermissionError):
                # Not there yet, or another process is moving it or has it open; the file then grows a little longer.
                continue


class _StderrHandler(logging.Handler):
    """Writes to whatever `sys.stderr` is at that moment."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            sys.stderr.write(f"{self.format(record)}\n")
            sys.stderr.flush()
        except (OSError, ValueError, AttributeError, TypeError):
            # The editor closed the pipe, or there is no stderr at all (pythonw); nobody is left to tell.
            return


class RunningLogs(Struct, frozen=True):
    """The log as it was started."""

    path: Path | None
    """The file; None when it cannot be written."""
    problem: str
    """Why there is no file; empty when there is one."""
    handlers: tuple[logging.Handler, ...]
    previous_level: int

    def stop(self) -> None:
        """Take the handlers off again."""
        for handler in self.handlers:
            logging.getLogger().removeHandler(handler)
            handler.close()
        logging.getLogger(_OUR_LOGGER).setLevel(self.previous_level)
        logging.captureWarnings(capture=False)


def start_logging(state: Path, level: LogLevel, secrets: Iterable[str] = (), *, stderr: bool = True) -> RunningLogs:
    """Log to the file under `state`, and warnings to stderr.

    Never fails: without a writable directory the warnings on stderr remain.

    Args:
        state: The state directory (`Paths.state`).
        level: The least serious record that the file keeps.
        secrets: Texts to mask (`config.load.known_secrets`).
        stderr: Whether warnings also go to stderr; a command that draws on the terminal turns it off.
    """
    redactor = Redactor(secrets)
    handlers: list[logging.Handler] = []
    path, problem = _prepare_file(state)
    if path is not None:
        handlers.append(_with(RotatingFile(path), _FileFormatter(redactor), _level_number(level)))
    if stderr:
        handlers.append(_with(_StderrHandler(), _LineFormatter(redactor), logging.WARNING))
    for handler in handlers:
        logging.getLogger().addHandler(handler)
    ours = logging.getLogger(_OUR_LOGGER)
    previous = ours.level
    ours.setLevel(_level_number(level))
    logging.captureWarnings(capture=True)
    if problem:
        ours.warning("%s", problem)
    return RunningLogs(path, problem, tuple(handlers), previous)


def mask_also(secret: str) -> None:
    """Mask a secret that became known after the start, in every log of this process."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler.formatter, _FileFormatter | _LineFormatter):
            handler.formatter.redactor.add([secret])


def _prepare_file(state: Path) -> tuple[Path | None, str]:
    path = state / LOG_FILE
    try:
        make_private_directory(state)
        with open(path, "ab", opener=open_private_append):
            pass
    except OSError as error:
        return None, f"There is no log file, since {path} cannot be written ({error.strerror})."
    return path, ""


def _with(handler: logging.Handler, formatter: logging.Formatter, level: int) -> logging.Handler:
    handler.setFormatter(formatter)
    handler.setLevel(level)
    return handler


def _level_number(level: LogLevel) -> int:
    numbers = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
    return numbers[level]


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]} … ({plural(len(text) - limit, 'more character')})"
