"""The system's keyring: Keychain, Credential Manager, Secret Service or KWallet, through the package `keyring`.

Owns: the service name, and the longest wait. The package is imported at the first use (about 0.2 s with D-Bus), and
every call runs in a thread that is abandoned after a while: a locked keyring may wait for a window that nobody sees.
Must not know: the contents of the texts.
"""

import threading
from collections.abc import Callable
from typing import Protocol, TypeVar, cast

from pattern_acp.credentials.model import KeyringUnavailableError

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
