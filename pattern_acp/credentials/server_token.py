"""The token of `pattern-acp serve`: made here, shown once, and stored as a hash alone.

Owns: its file. Must not know: how a client shows it. A token has 256 random bits, so a plain SHA-256 is as good as a
slow hash: nobody can guess what it is the hash of.
"""

import hmac
import os
import secrets
from hashlib import sha256
from pathlib import Path

import msgspec

from pattern_acp.config.paths import make_private_directory
from pattern_acp.credentials.model import CredentialFileError

FILE_NAME = "server-token.json"
VERSION = 1
PREFIX = "pat_"
"""By which a scanner of secrets can know one."""


SERVER_PREFIX = "server:"
"""Begins the names under which clients store the tokens of servers, by URL, among their keys."""

SYNC_KEY = "sync"
"""The name under which the key of sync is stored among them."""


class _File(msgspec.Struct, frozen=True):
    version: int
    sha256: str
    made_at_ms: int


class ServerToken:
    """The token of the server of this user, in `directory`."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / FILE_NAME

    def exists(self) -> bool:
        """Tell whether there is a token.

        Raises:
            CredentialFileError: the file cannot be read.
        """
        return self._read() is not None

    def make(self, now_ms: int) -> str:
        """Return a new token, instead of the old one, which is refused from now on.

        Raises:
            CredentialFileError: the file cannot be written.
        """
        token = PREFIX + secrets.token_urlsafe(32)
        data = msgspec.json.encode(_File(VERSION, _hash(token), now_ms))
        partial = self.path.with_name(f"{FILE_NAME}.{secrets.token_hex(8)}")
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
        return stored is not None and hmac.compare_digest(stored.sha256, _hash(token))

    def _read(self) -> _File | None:
        try:
            read = msgspec.json.decode(self.path.read_bytes(), type=_File)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise CredentialFileError(
                f"{self.path} cannot be read; `pattern-acp serve --new-token` makes a new one."
            ) from error
        if read.version != VERSION:
            raise CredentialFileError(f"{self.path} is of another version of pattern-acp; update this one.")
        return read


def _hash(token: str) -> str:
    return sha256(token.encode("utf-8", "surrogateescape")).hexdigest()
