"""The one table from domain errors to JSON-RPC errors."""

import pytest

from pattern_acp.acp.errors import CODES, ClientError, meaning_of, reason_of, to_rpc_error
from pattern_acp.db.errors import DatabaseBusyError
from pattern_acp.domain.errors import ConfigError, InvalidRequestError, PatternError
from pattern_acp.journal.codec import BadCursorError, LeaseHeldError
from pattern_acp.journal.codec import MissingSessionError as UnknownRowError
from pattern_acp.jsonrpc.messages import AUTH_REQUIRED, INTERNAL_ERROR, INVALID_PARAMS, RESOURCE_NOT_FOUND, RemoteError
from pattern_acp.providers.http_errors import ProviderAuthError
from pattern_acp.session.ports import CredentialsError, UnknownSessionError


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UnknownSessionError("Session not found: x"), RESOURCE_NOT_FOUND),
        (UnknownRowError("x"), RESOURCE_NOT_FOUND),
        (CredentialsError("Set the key."), AUTH_REQUIRED),
        (ProviderAuthError("Set the key."), AUTH_REQUIRED),
        (InvalidRequestError("Wrong."), INVALID_PARAMS),
        (BadCursorError(), INVALID_PARAMS),
        (LeaseHeldError("x", pid=1, host="h", since_ms=0), INTERNAL_ERROR),
        (DatabaseBusyError("Locked."), INTERNAL_ERROR),
        (ConfigError("Wrong."), INTERNAL_ERROR),
        (PatternError("Something."), INTERNAL_ERROR),
    ],
)
def test_every_error_has_its_code_and_its_sentence_twice(error: PatternError, code: int):
    translated = to_rpc_error(error)
    assert translated is not None
    assert translated.code == code
    assert translated.message == error.sentence
    assert translated.data == {"details": error.sentence}
    assert translated.failure_code == error.failure_code


def test_an_error_that_nobody_foresaw_is_not_translated():
    assert to_rpc_error(KeyError("secret")) is None


def test_no_entry_of_the_table_is_hidden_behind_a_wider_one():
    for position, (kind, _) in enumerate(CODES):
        assert not any(issubclass(kind, earlier) for earlier, _ in CODES[:position])


def details(text: str) -> RemoteError:
    return RemoteError(INTERNAL_ERROR, "Internal error", {"details": text})


@pytest.mark.parametrize(
    "error",
    [
        details("Permission denied for fs/write_text_file"),
        details("[Errno 13] Permission denied: '/a'"),
        details("Path is outside the allowed folders"),
        details("The user rejected the command."),
        details("Something odd"),
        RemoteError(INTERNAL_ERROR, "Internal error"),
        RemoteError(INTERNAL_ERROR, "EACCES: permission denied, open '/a'"),
        RemoteError(INTERNAL_ERROR, "ENOENT: the user cancelled"),
        RemoteError(INVALID_PARAMS, "Writing is not allowed"),
        RemoteError(-32800, "Request withdrawn"),
        RemoteError(-32000, "No"),
        RemoteError(-32603, "", {"message": {"nested": "x"}}),
        RemoteError(INVALID_PARAMS, "The file is read-only"),
        details("A read only buffer cannot be written: not supported"),
    ],
)
def test_an_error_that_is_a_refusal_or_may_be_one_counts_as_one(error: RemoteError):
    assert meaning_of(error) is ClientError.REFUSED


@pytest.mark.parametrize(
    "error",
    [
        RemoteError(-32601, "Method not found"),
        RemoteError(-32601, "Method not allowed"),
        RemoteError(INVALID_PARAMS, "Past the end of the file."),
        RemoteError(INVALID_PARAMS, "Invalid params"),
        RemoteError(INTERNAL_ERROR, "Terminals are not supported"),
        details("fs/read_text_file is not implemented"),
        details("There is no open buffer for /a"),
        details("'utf-8' codec can't decode byte 0xff"),
        details("Client.read() got an unexpected keyword argument 'limit'"),
        details("posix_spawnp failed: no pty is left"),
    ],
)
def test_an_error_of_a_client_that_cannot_is_no_refusal(error: RemoteError):
    assert meaning_of(error) is ClientError.INCAPABLE


@pytest.mark.parametrize(
    "error",
    [
        RemoteError(RESOURCE_NOT_FOUND, "Resource not found"),
        RemoteError(INTERNAL_ERROR, "ENOENT: no such file or directory, open '/a'"),
        details("[Errno 2] No such file or directory: '/a'"),
        details("Unable to resolve nonexistent file '/a'"),
    ],
)
def test_a_file_that_the_client_does_not_find_is_missing_whatever_the_code(error: RemoteError):
    assert meaning_of(error) is ClientError.MISSING


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (details("Permission denied."), "Internal error: Permission denied"),
        (RemoteError(-1, "Denied.", {"message": "Denied by the rule"}), "Denied by the rule"),
        (RemoteError(-1, "No.", "not\nhere\x1b[31m"), "No: not here [31m"),
        (RemoteError(-1, "No", {"details": "No"}), "No"),
        (RemoteError(-1, ""), "without a reason"),
    ],
)
def test_the_reason_of_a_client_is_one_line_with_what_its_data_say(error: RemoteError, reason: str):
    assert reason_of(error) == reason
