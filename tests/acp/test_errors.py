"""The one table from domain errors to JSON-RPC errors."""

import pytest

from pattern_acp.acp.errors import CODES, to_rpc_error
from pattern_acp.db.errors import DatabaseBusyError
from pattern_acp.domain.errors import ConfigError, PatternError
from pattern_acp.journal.errors import BadCursorError, LeaseHeldError
from pattern_acp.journal.errors import UnknownSessionError as UnknownRowError
from pattern_acp.jsonrpc.errors import AUTH_REQUIRED, INTERNAL_ERROR, INVALID_PARAMS, RESOURCE_NOT_FOUND
from pattern_acp.providers.errors import ProviderAuthError
from pattern_acp.session.errors import CredentialsError, InvalidRequestError, UnknownSessionError


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
