"""Stored credentials: one file, the system's keyring for the secrets if there is one, and the token of our own server.

Owns: the file's format, its lock, and its replacement as a whole. The file records the stored credential of each
provider and its location, with the last four characters, so that a start and `auth status` never ask the keyring; the
secret itself is in the keyring, or in the file (mode 0600) if there is none. It lies beside the constellations, never
in one. The keyring is Keychain, Credential Manager, Secret Service or KWallet, through the package `keyring`, which is
imported at the first use (about 0.2 s with D-Bus); each call runs in a thread that is abandoned after a while, since a
locked keyring may wait for a window that nobody sees. The token of `pattern-acp serve` is stored as a hash alone; it
has 256 random bits, so a plain SHA-256 is as good as a slow hash. Must not know: providers' settings and OAuth.
"""

import hmac
import os
import secrets
import sys
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Protocol, TypeVar, cast

import msgspec

from pattern_acp.config.paths import make_private_directory
from pattern_acp.credentials.model import (
    Credential,
    CredentialFileError,
    KeyringUnavailableError,
    Kind,
    Storage,
    StoredEntry,
    last_four,
)

SERVICE = "pattern-acp"
KEYRING_SECONDS = 10.0
"""Longest wait for the keyring: long enough to type a password into its window, short enough for a prompt to fail."""

T = TypeVar("T")


class Keyring(Protocol):
    """Texts by name. All methods block, for a worker thread, at most `KEYRING_SECONDS`.

    All raise KeyringUnavailableError: there is no keyring, it refused, or it does not answer.
    """

    def get(self, name: str) -> str | None:
        """Return the text, or None."""
        ...

    def set(self, name: str, text: str) -> None:
        """Store the text."""
        ...

    def delete(self, name: str) -> None:
        """Delete the text; a missing one is no error."""
        ...


class Backend(Protocol):
    """The part of `keyring.backend.KeyringBackend` that is used."""

    def get_password(self, service: str, username: str, /) -> str | None:
        """Return the text, or None."""
        ...

    def set_password(self, service: str, username: str, password: str, /) -> None:
        """Store the text."""
        ...

    def delete_password(self, service: str, username: str, /) -> None:
        """Delete it."""
        ...


def system_backend() -> Backend:
    """Return the backend that the package chose for this machine.

    Raises:
        KeyringUnavailableError: none that the package recommends; those that keep plain text do not count.
    """
    import keyring
    from keyring.backend import KeyringBackend

    chosen: KeyringBackend = keyring.get_keyring()
    if float(chosen.priority) < 1:
        raise KeyringUnavailableError("This system has no keyring that can be used; keys go to a private file instead.")
    # The package wraps set_password in a way that hides its parameters from a type checker.
    return cast("Backend", chosen)


class SystemKeyring:
    """`Keyring` of this machine. `backend` is asked at each call, in the thread of the call."""

    def __init__(self, backend: Callable[[], Backend] = system_backend, wait_seconds: float = KEYRING_SECONDS) -> None:
        self._backend = backend
        self._wait_seconds = wait_seconds

    def get(self, name: str) -> str | None:
        """See `Keyring.get`."""
        return self._bounded(lambda: self._backend().get_password(SERVICE, name))

    def set(self, name: str, text: str) -> None:
        """See `Keyring.set`."""
        self._bounded(lambda: self._backend().set_password(SERVICE, name, text))

    def delete(self, name: str) -> None:
        """See `Keyring.delete`."""

        def delete() -> None:
            backend = self._backend()
            if backend.get_password(SERVICE, name) is not None:
                backend.delete_password(SERVICE, name)

        self._bounded(delete)

    def _bounded(self, call: Callable[[], T]) -> T:
        done: list[T] = []
        failed: list[Exception] = []

        def run() -> None:
            try:
                done.append(call())
            except Exception as error:  # noqa: BLE001 - each backend has errors of its own; none may end a turn
                failed.append(error)

        thread = threading.Thread(target=run, name="keyring", daemon=True)
        thread.start()
        thread.join(self._wait_seconds)
        if done:
            return done[0]
        if failed and isinstance(failed[0], KeyringUnavailableError):
            raise failed[0]
        if failed:
            # The error's own text is the backend's and may quote the secret.
            raise KeyringUnavailableError(
                f"The system's keyring refused ({type(failed[0]).__name__}); unlock it, or sign in with --file."
            )
        raise KeyringUnavailableError(
            f"The system's keyring did not answer within {self._wait_seconds:.0f} s; unlock it, or sign in with --file."
        )


FILE_NAME = "credentials.json"
LOCK_NAME = "credentials.lock"
VERSION = 1
LOCK_SECONDS = 10.0
"""Longest wait for another process that changes the file; it holds the lock for milliseconds, or while its keyring is
asked."""

MAX_FILE_BYTES = 1024 * 1024


class _FileEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One provider's entry in the file."""

    kind: Kind
    place: Storage
    last_four: str = ""
    expires_at_ms: int | None = None
    stamp: str = ""
    secret: str = ""
    refresh_token: str = ""
    client: str = ""


class _File(msgspec.Struct, frozen=True):
    version: int
    entries: dict[str, _FileEntry]


class _InKeyring(msgspec.Struct, frozen=True, omit_defaults=True):
    """The text in the keyring under a provider's name."""

    secret: str
    refresh_token: str = ""
    client: str = ""


def _advice(name: str) -> str:
    if name == SYNC_KEY:
        return "`pattern-acp sync key set`"
    if name.startswith(SERVER_PREFIX):
        return f"`pattern-acp connect {name.removeprefix(SERVER_PREFIX)} --save-token`"
    return "`pattern-acp mcp login`" if name.startswith("mcp:") else f"`pattern-acp auth login {name}`"


class CredentialStore:
    """Credentials by provider, in `directory`. Several processes may use it at once."""

    def __init__(self, directory: Path, keyring: Keyring) -> None:
        self._directory = directory
        self._keyring = keyring
        self._seen: tuple[int, int, int] | None = None
        self._file = _File(VERSION, {})

    @property
    def path(self) -> Path:
        """The file."""
        return self._directory / FILE_NAME

    def entries(self) -> Mapping[str, StoredEntry]:
        """Return the stored entries, by provider. Reads the file only after it has changed; a broken one has none.

        `check` reports why a file is broken.
        """
        with suppress(CredentialFileError):
            self._refresh()
        return {
            name: StoredEntry(entry.kind, entry.place, entry.last_four, entry.expires_at_ms, entry.stamp)
            for name, entry in self._file.entries.items()
        }

    def check(self) -> None:
        """Read the file and check it.

        Raises:
            CredentialFileError: it cannot be read, or is not what this version writes.
        """
        self._refresh()

    def load(self, provider: str) -> Credential | None:
        """Return the credential of a provider, or None. Blocking: may ask the keyring.

        Raises:
            CredentialFileError: the file cannot be read.
            KeyringUnavailableError: the secret is in the keyring, and the keyring does not give it.
        """
        self._refresh()
        entry = self._file.entries.get(provider)
        if entry is None:
            return None
        if entry.place == "file":
            return Credential(entry.secret, entry.kind, entry.refresh_token, entry.expires_at_ms, entry.client)
        text = self._keyring.get(provider)
        if text is None:
            raise KeyringUnavailableError(f"The keyring has no key for {provider} any more; run {_advice(provider)}.")
        try:
            found = msgspec.json.decode(text, type=_InKeyring)
        except msgspec.MsgspecError:
            raise KeyringUnavailableError(
                f"The keyring's entry for {provider} is not ours; run {_advice(provider)}."
            ) from None
        return Credential(found.secret, entry.kind, found.refresh_token, entry.expires_at_ms, found.client)

    def save(self, provider: str, credential: Credential, *, in_file: bool = False) -> Storage:
        """Store a credential instead of the provider's old one, and return where. Blocking.

        Without a keyring, or when the keyring refuses (Windows takes 1,280 characters), it goes to the file.

        Raises:
            CredentialFileError: the file cannot be read or written; the old credential is still there.
        """
        with self._locked():
            self._refresh()
            old = self._file.entries.get(provider)
            place: Storage = "file" if in_file else self._to_keyring(provider, credential)
            shown = last_four(credential.secret)
            entry = _FileEntry(credential.kind, place, shown, credential.expires_at_ms, secrets.token_hex(4))
            if place == "file":
                entry = msgspec.structs.replace(
                    entry,
                    secret=credential.secret,
                    refresh_token=credential.refresh_token,
                    client=credential.client,
                )
            self._write({**self._file.entries, provider: entry})
            if old is not None and old.place == "keyring" and place == "file":
                with suppress(KeyringUnavailableError):
                    self._keyring.delete(provider)
            return place

    def delete(self, provider: str) -> bool:
        """Delete a provider's credential; return whether there was one. Blocking.

        Raises:
            CredentialFileError: the file cannot be read or written.
            KeyringUnavailableError: the keyring does not delete it; the entry stays, so that it can be tried again.
        """
        with self._locked():
            self._refresh()
            entry = self._file.entries.get(provider)
            if entry is None:
                return False
            if entry.place == "keyring":
                self._keyring.delete(provider)
            self._write({name: each for name, each in self._file.entries.items() if name != provider})
            return True

    def _to_keyring(self, provider: str, credential: Credential) -> Storage:
        text = msgspec.json.encode(_InKeyring(credential.secret, credential.refresh_token, credential.client)).decode()
        try:
            self._keyring.set(provider, text)
        except KeyringUnavailableError:
            return "file"
        return "keyring"

    @contextmanager
    def _locked(self) -> Generator[None]:
        from filelock import FileLock, Timeout

        try:
            make_private_directory(self._directory)
            lock = FileLock(self._directory / LOCK_NAME, timeout=LOCK_SECONDS, mode=0o600)
            with lock:
                yield
        except Timeout:
            raise CredentialFileError(
                f"Another process holds {self._directory / LOCK_NAME}; end it, or try again."
            ) from None
        except OSError as error:
            raise CredentialFileError(f"{self.path} cannot be changed ({error.strerror}).") from error

    def _refresh(self) -> None:
        try:
            found = self.path.stat()
        except FileNotFoundError:
            self._seen, self._file = None, _File(VERSION, {})
            return
        except OSError as error:
            raise CredentialFileError(f"{self.path} cannot be read ({error.strerror}).") from error
        state = (found.st_mtime_ns, found.st_size, found.st_ino)
        if state == self._seen:
            return
        self._seen, self._file = None, _File(VERSION, {})
        self._file = self._read()
        self._seen = state

    def _read(self) -> _File:
        try:
            with self.path.open("rb") as file:
                data = file.read(MAX_FILE_BYTES)
            read = msgspec.json.decode(data, type=_File)
        except OSError as error:
            raise CredentialFileError(f"{self.path} cannot be read ({error.strerror}).") from error
        except (msgspec.MsgspecError, UnicodeDecodeError):
            # The decoder's own text may quote the file.
            raise CredentialFileError(
                f"{self.path} is not a file of credentials; move it away and sign in again."
            ) from None
        if read.version != VERSION:
            raise CredentialFileError(
                f"{self.path} has format {read.version}, and this version of pattern-acp knows {VERSION}; update it."
            )
        return read

    def _write(self, entries: dict[str, _FileEntry]) -> None:
        data = msgspec.json.format(msgspec.json.encode(_File(VERSION, entries)), indent=2)
        partial = self.path.with_name(f"{FILE_NAME}.{secrets.token_hex(8)}")
        try:
            descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(self.path)
        except OSError as error:
            raise CredentialFileError(
                f"{self.path} cannot be written ({error.strerror}); the old one is still there."
            ) from error
        finally:
            with suppress(OSError):
                partial.unlink(missing_ok=True)
        if sys.platform != "win32":
            # The new name must survive a power cut; Windows has no such call.
            with suppress(OSError):
                folder = os.open(self._directory, os.O_RDONLY)
                try:
                    os.fsync(folder)
                finally:
                    os.close(folder)
        self._file = _File(VERSION, entries)
        self._seen = None


SERVER_FILE_NAME = "server-token.json"
PREFIX = "pat_"
"""By which a scanner of secrets can know one."""


SERVER_PREFIX = "server:"
"""Begins the names under which clients store the tokens of servers, by URL, among their keys."""

SYNC_KEY = "sync"
"""The name under which the key of sync is stored among them."""


class _TokenFile(msgspec.Struct, frozen=True):
    version: int
    sha256: str
    made_at_ms: int


class ServerToken:
    """The token of the server of this user, in `directory`."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / SERVER_FILE_NAME

    def exists(self) -> bool:
        """Tell whether there is a token. Raises CredentialFileError where the file cannot be read."""
        return self._read() is not None

    def make(self, now_ms: int) -> str:
        """Return a new token, instead of the old one, which is refused from now on.

        Raises:
            CredentialFileError: the file cannot be written.
        """
        token = PREFIX + secrets.token_urlsafe(32)
        data = msgspec.json.encode(_TokenFile(VERSION, _token_hash(token), now_ms))
        partial = self.path.with_name(f"{SERVER_FILE_NAME}.{secrets.token_hex(8)}")
        try:
            make_private_directory(self.path.parent)
            descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(self.path)
        except OSError as error:
            raise CredentialFileError(f"{self.path} cannot be written ({error.strerror}).") from error
        finally:
            partial.unlink(missing_ok=True)
        return token

    def fits(self, token: str) -> bool:
        """Tell whether this is the token. Reads the file, so that a server that runs refuses an old one at once."""
        try:
            stored = self._read()
        except CredentialFileError:
            return False
        return stored is not None and hmac.compare_digest(stored.sha256, _token_hash(token))

    def _read(self) -> _TokenFile | None:
        try:
            read = msgspec.json.decode(self.path.read_bytes(), type=_TokenFile)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise CredentialFileError(
                f"{self.path} cannot be read; `pattern-acp serve --new-token` makes a new one."
            ) from error
        if read.version != VERSION:
            raise CredentialFileError(f"{self.path} is of another version of pattern-acp; update this one.")
        return read


def _token_hash(token: str) -> str:
    return sha256(token.encode("utf-8", "surrogateescape")).hexdigest()
