"""The token of a server: shown once, stored as a hash, replaced by the next."""

import os
import stat
from pathlib import Path

import pytest

from pattern_acp.credentials.model import CredentialFileError
from pattern_acp.credentials.store import ServerToken


def test_a_token_fits_and_is_stored_as_a_hash_that_others_cannot_read(tmp_path: Path) -> None:
    store = ServerToken(tmp_path / "new" / "home")
    assert not store.exists()
    token = store.make(1)
    assert store.exists()
    assert store.fits(token)
    assert not store.fits("")
    assert not store.fits(token[:-1])
    assert token not in store.path.read_text(encoding="utf-8")
    if os.name == "posix":
        assert stat.S_IMODE(store.path.stat().st_mode) == 0o600


def test_a_new_token_ends_the_old_one_also_for_who_has_read_it(tmp_path: Path) -> None:
    running, command = ServerToken(tmp_path), ServerToken(tmp_path)
    old = running.make(1)
    assert running.fits(old)
    new = command.make(2)
    assert not running.fits(old)
    assert running.fits(new)
    assert [each.name for each in tmp_path.iterdir()] == [running.path.name]


@pytest.mark.parametrize("text", ["", "{", '{"version":9,"sha256":"x","made_at_ms":0}', '{"version":1}'])
def test_a_file_that_is_none_of_ours_lets_nobody_in_and_says_what_to_do(tmp_path: Path, text: str) -> None:
    store = ServerToken(tmp_path)
    store.path.write_text(text, encoding="utf-8")
    assert not store.fits("anything")
    with pytest.raises(CredentialFileError, match=r"makes a new one|update this one"):
        store.exists()
