"""What the log keeps, masks, drops and rotates."""

import logging
import stat
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from pattern_acp.config.logs import Redactor, RotatingFile, RunningLogs, start_logging

PLANTED = "planted-secret-0123456789"
LOGGER = logging.getLogger("pattern_acp.test")


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[RunningLogs]:
    running = start_logging(tmp_path / "state", "info", (PLANTED,))
    yield running
    running.stop()


def fail_with(words: str) -> None:
    raise ValueError(words)


def kept(running: RunningLogs) -> str:
    assert running.path is not None
    return running.path.read_text(encoding="utf-8")


def test_the_file_keeps_records_from_the_chosen_level_on(logs: RunningLogs):
    LOGGER.debug("too small")
    LOGGER.info("turn %s ended", 3)
    assert "too small" not in kept(logs)
    assert kept(logs).rstrip().endswith("INFO pattern_acp.test: turn 3 ended")


def test_stderr_gets_warnings_as_single_lines_without_tracebacks(logs: RunningLogs, capsys: pytest.CaptureFixture[str]):
    LOGGER.info("quiet")
    try:
        fail_with("inner words")
    except ValueError:
        LOGGER.exception("It broke\nin two lines \x1b[31m")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "pattern-acp: error: It broke in two lines ?[31m\n"
    assert "Traceback" in kept(logs)
    assert "inner words" in kept(logs)


def test_secrets_are_masked_in_messages_arguments_and_tracebacks(logs: RunningLogs, capsys: pytest.CaptureFixture[str]):
    try:
        fail_with(f"refused {PLANTED}")
    except ValueError:
        LOGGER.exception("key %s and Authorization: Bearer abcdefghijklmn", PLANTED)
    everything = kept(logs) + capsys.readouterr().err
    assert PLANTED not in everything
    assert "abcdefghijklmn" not in everything
    assert "••••" in everything


def test_libraries_are_kept_from_warning_on(tmp_path: Path):
    running = start_logging(tmp_path, "debug")
    logging.getLogger("httpcore.http11").debug("headers with a key")
    logging.getLogger("httpx").warning("slow")
    running.stop()
    assert "headers" not in kept(running)
    assert "slow" in kept(running)


def test_python_warnings_go_to_the_log(logs: RunningLogs):
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("an old call", DeprecationWarning, stacklevel=1)
    logging.captureWarnings(capture=True)
    assert logs.problem == ""


def test_a_long_message_is_cut(logs: RunningLogs):
    LOGGER.info("x" * 100_000)
    assert len(kept(logs)) < 5000
    assert "more characters" in kept(logs)


def test_stop_leaves_no_handler_behind(tmp_path: Path):
    before = list(logging.getLogger().handlers)
    start_logging(tmp_path, "info").stop()
    assert logging.getLogger().handlers == before


def test_without_a_writable_directory_stderr_remains(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "file").touch()
    running = start_logging(tmp_path / "file" / "state", "info")
    LOGGER.warning("still here")
    running.stop()
    assert running.path is None
    assert "cannot be written" in running.problem
    assert capsys.readouterr().err.endswith("pattern-acp: warning: still here\n")


def test_a_command_that_draws_keeps_stderr_clean(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    running = start_logging(tmp_path, "info", stderr=False)
    LOGGER.error("only in the file")
    running.stop()
    assert capsys.readouterr().err == ""
    assert "only in the file" in kept(running)


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX modes")
def test_the_file_is_for_its_owner_alone(logs: RunningLogs):
    assert logs.path is not None
    assert stat.S_IMODE(logs.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(logs.path.parent.stat().st_mode) == 0o700


def record(text: str) -> logging.LogRecord:
    return logging.LogRecord("x", logging.INFO, "x", 1, text, None, None)


def test_a_full_file_moves_aside_and_only_so_many_are_kept(tmp_path: Path):
    path = tmp_path / "log"
    handler = RotatingFile(path, max_bytes=10, kept_files=3)
    for text in ("first", "second", "third", "fourth", "fifth"):
        handler.emit(record(text))
    handler.close()
    assert {each.name: each.read_text(encoding="utf-8") for each in tmp_path.iterdir()} == {
        "log": "fifth\n",
        "log.1": "fourth\n",
        "log.2": "third\n",
    }


def test_two_writers_share_a_file_through_a_rotation(tmp_path: Path):
    one, two = (RotatingFile(tmp_path / "log", max_bytes=12, kept_files=3) for _ in range(2))
    one.emit(record("aaaaa"))
    two.emit(record("bbbbb"))
    one.emit(record("ccccc"))
    two.emit(record("ddddd"))
    assert (tmp_path / "log.1").read_text(encoding="utf-8") == "aaaaa\nbbbbb\n"
    assert (tmp_path / "log").read_text(encoding="utf-8") == "ccccc\nddddd\n"


def test_a_file_that_cannot_be_written_or_a_bad_record_ends_nothing(tmp_path: Path):
    handler = RotatingFile(tmp_path / "no" / "log")
    handler.emit(record("x"))
    assert handler.failure
    handler = RotatingFile(tmp_path / "log")
    handler.emit(logging.LogRecord("x", logging.INFO, "x", 1, "%d", ("text",), None))
    assert "formatted" in handler.failure


def test_a_short_setting_does_not_garble_the_log():
    assert Redactor(("1", "")).mask("turn 1 of 11") == "turn 1 of 11"


def test_a_secret_within_a_secret_is_masked_whole():
    assert Redactor(("12345678", "x12345678y")).mask("a x12345678y b 12345678") == "a •••• b ••••"


@pytest.mark.parametrize(
    "key", ["sk-ant-api03-abcdefghijklmnop", "ghp_0123456789abcdefghij", "x-api-key: something-secret"]
)
def test_what_looks_like_a_key_is_masked_though_nobody_planted_it(key: str):
    masked = Redactor(()).mask(f"before {key} after")
    assert key not in masked
    assert masked.endswith(" after")
