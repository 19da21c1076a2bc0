"""What is kept, and where."""

import multiprocessing
import stat
import sys
import threading
from pathlib import Path

import pytest

from pattern_acp.credentials.model import Credential, CredentialFileError, KeyringUnavailableError, KeyTier, last_four
from pattern_acp.credentials.store import CredentialStore, SystemKeyring
from tests.support.credentials import FakeKeyring

KEY = "test-key-" + "0123456789"
TOKENS = Credential("access-" + "a" * 20, "oauth", "refresh-" + "b" * 20, 5000, '{"client": "c"}')


def test_a_key_goes_to_the_keyring_and_the_file_has_its_last_four_characters_only(tmp_path: Path):
    keyring = FakeKeyring()
    store = CredentialStore(tmp_path, keyring)
    assert store.save("mine", Credential(KEY)) == "keyring"
    assert KEY not in store.path.read_text("utf-8")
    asked = keyring.calls
    assert store.entries()["mine"].last_four == "6789"
    assert store.entries()["mine"].tier is KeyTier.KEYRING
    assert keyring.calls == asked
    assert CredentialStore(tmp_path, keyring).load("mine") == Credential(KEY)
    assert KEY not in repr(Credential(KEY))


@pytest.mark.parametrize("in_file", [True, False])
def test_tokens_come_back_whole_from_either_place(tmp_path: Path, in_file: bool):
    store = CredentialStore(tmp_path, FakeKeyring())
    store.save("mine", TOKENS, in_file=in_file)
    assert store.load("mine") == TOKENS
    assert store.entries()["mine"].tier is KeyTier.OAUTH


def test_without_a_keyring_it_goes_to_a_file_that_only_its_owner_reads(tmp_path: Path):
    store = CredentialStore(tmp_path / "new", FakeKeyring(broken=True))
    assert store.save("mine", Credential(KEY)) == "file"
    assert store.load("mine") == Credential(KEY)
    if sys.platform != "win32":
        assert stat.S_IMODE(store.path.stat().st_mode) == 0o600
        assert stat.S_IMODE(store.path.parent.stat().st_mode) == 0o700
    assert sorted(each.name for each in store.path.parent.iterdir()) == ["credentials.json", "credentials.lock"]


def test_moving_a_key_to_the_file_takes_it_out_of_the_keyring(tmp_path: Path):
    keyring = FakeKeyring()
    store = CredentialStore(tmp_path, keyring)
    store.save("mine", Credential(KEY))
    store.save("mine", Credential(KEY), in_file=True)
    assert keyring.texts == {}


def test_deleting_twice_is_no_error_and_others_stay(tmp_path: Path):
    keyring = FakeKeyring()
    store = CredentialStore(tmp_path, keyring)
    store.save("mine", Credential(KEY))
    store.save("yours", Credential(KEY), in_file=True)
    assert store.delete("mine")
    assert not store.delete("mine")
    assert list(store.entries()) == ["yours"]
    assert keyring.texts == {}
    assert store.load("mine") is None


def test_another_processes_change_is_seen_at_once(tmp_path: Path):
    keyring = FakeKeyring()
    one, other = CredentialStore(tmp_path, keyring), CredentialStore(tmp_path, keyring)
    assert one.entries() == {}
    other.save("mine", Credential(KEY), in_file=True)
    assert list(one.entries()) == ["mine"]


def test_a_keyring_that_lost_the_key_is_told(tmp_path: Path):
    keyring = FakeKeyring()
    store = CredentialStore(tmp_path, keyring)
    store.save("mine", Credential(KEY))
    keyring.texts.clear()
    with pytest.raises(KeyringUnavailableError, match="auth login mine"):
        store.load("mine")
    keyring.texts["mine"] = "somebody else's"
    with pytest.raises(KeyringUnavailableError, match="not ours"):
        store.load("mine")


@pytest.mark.parametrize("content", ["{", '{"version": 2, "entries": {}}', '{"version": 1, "entries": 7}'])
def test_a_file_that_is_not_ours_is_left_as_it_is(tmp_path: Path, content: str):
    store = CredentialStore(tmp_path, FakeKeyring())
    store.path.write_text(content, "utf-8")
    assert store.entries() == {}
    for act in (store.check, lambda: store.load("mine"), lambda: store.save("mine", Credential(KEY))):
        with pytest.raises(CredentialFileError):
            act()
    assert store.path.read_text("utf-8") == content


def _save_many(folder: str, number: int) -> None:
    store = CredentialStore(Path(folder), FakeKeyring(broken=True))
    for index in range(10):
        store.save(f"p{number}-{index}", Credential(KEY))


def test_processes_that_save_at_once_lose_nothing(tmp_path: Path):
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_save_many, args=(str(tmp_path), number)) for number in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(40)
    assert len(CredentialStore(tmp_path, FakeKeyring()).entries()) == 20


class _Backend:
    """A keyring backend of the test's own."""

    def __init__(self, *, refuses: bool = False, hangs: threading.Event | None = None) -> None:
        self.texts: dict[tuple[str, str], str] = {}
        self._refuses = refuses
        self._hangs = hangs

    def get_password(self, service: str, username: str, /) -> str | None:
        if self._hangs is not None:
            self._hangs.wait(5)
        if self._refuses:
            raise RuntimeError(KEY)
        return self.texts.get((service, username))

    def set_password(self, service: str, username: str, password: str, /) -> None:
        self.texts[service, username] = password

    def delete_password(self, service: str, username: str, /) -> None:
        del self.texts[service, username]


def test_the_systems_keyring_keeps_and_forgets():
    backend = _Backend()
    keyring = SystemKeyring(lambda: backend)
    keyring.delete("mine")
    keyring.set("mine", "text")
    assert keyring.get("mine") == "text"
    assert backend.texts == {("pattern-acp", "mine"): "text"}
    keyring.delete("mine")
    assert keyring.get("mine") is None


def test_a_keyring_that_fails_or_hangs_is_told_without_what_it_said():
    with pytest.raises(KeyringUnavailableError, match="RuntimeError") as caught:
        SystemKeyring(lambda: _Backend(refuses=True)).get("mine")
    assert KEY not in caught.value.sentence
    release = threading.Event()
    try:
        with pytest.raises(KeyringUnavailableError, match="did not answer"):
            SystemKeyring(lambda: _Backend(hangs=release), wait_seconds=0.05).get("mine")
    finally:
        release.set()


def test_of_a_short_key_nothing_is_shown():
    assert last_four("short") == ""
