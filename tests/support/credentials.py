"""`FakeKeyring`: texts in memory, for tests of what is kept."""

from pattern_acp.credentials.model import KeyringUnavailableError


class FakeKeyring:
    """`credentials.store.Keyring`; a `broken` one refuses everything."""

    def __init__(self, *, broken: bool = False) -> None:
        self.texts: dict[str, str] = {}
        self.calls = 0
        self._broken = broken

    def get(self, name: str) -> str | None:
        """See `Keyring.get`."""
        self._called()
        return self.texts.get(name)

    def set(self, name: str, text: str) -> None:
        """See `Keyring.set`."""
        self._called()
        self.texts[name] = text

    def delete(self, name: str) -> None:
        """See `Keyring.delete`."""
        self._called()
        self.texts.pop(name, None)

    def _called(self) -> None:
        self.calls += 1
        if self._broken:
            raise KeyringUnavailableError("There is no keyring in this test.")
