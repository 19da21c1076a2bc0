"""`pattern-acp serve` and `connect` in a terminal: the token, and what cannot be used."""

import pytest

from pattern_acp.bootstrap.process import Process
from pattern_acp.cli.arguments import Connect, ServeClients
from pattern_acp.cli.remote import run_connect, run_serve_clients
from pattern_acp.domain.errors import PatternError

URL = "ws://127.0.0.1:1/acp"


def test_a_new_token_is_shown_once_and_only_its_hash_is_stored(home: Process, capsys: pytest.CaptureFixture[str]):
    assert run_serve_clients(ServeClients(new_token=True), home) == 0
    shown = capsys.readouterr().out
    token = next(line.strip() for line in shown.splitlines() if line.strip().startswith("pat_"))
    stored = [file.read_bytes() for file in home.loaded.paths.data.rglob("*") if file.is_file()]
    assert stored
    assert not any(token.encode() in content for content in stored)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (ServeClients(listen="0.0.0.0:1"), "add --allow-remote"),
        (ServeClients(listen="nowhere"), "127.0.0.1:PORT"),
        (ServeClients(origins=("here",)), "is no origin"),
        (ServeClients(certificate="missing.pem"), "PEM files"),
    ],
)
def test_what_cannot_be_served_is_one_sentence(home: Process, arguments: ServeClients, sentence: str):
    with pytest.raises(PatternError, match=sentence):
        run_serve_clients(arguments, home)


def test_a_client_without_a_token_learns_how_to_store_one(home: Process):
    with pytest.raises(PatternError, match="--save-token"):
        run_connect(Connect(url=URL), home)
