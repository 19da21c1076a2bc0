"""The providers' model lists as they were last fetched, and which models refused tools: one JSON file, a cache.

Owns: the file. It may be deleted at any time, and a broken one counts as empty. Must not know: HTTP.
"""

import os
from contextlib import suppress
from pathlib import Path

import msgspec

from pattern_acp.config.settings import ProviderSettings
from pattern_acp.domain.clock import Clock
from pattern_acp.providers.catalogue import ListedModel
from pattern_acp.providers.endpoints import base_url

FILE_NAME = "model-lists.json"
FRESH_MS = 24 * 60 * 60 * 1000
"""A list is fetched once a day (issue 2, section 6)."""

NO_TOOLS_MS = 30 * FRESH_MS
"""How long a refusal of tools counts: a server may learn them with an update."""

MAX_FILE_BYTES = 4 * 1024 * 1024
"""OpenRouter's list of some hundred models takes about 60 kB here."""


class _Entry(msgspec.Struct, frozen=True):
    base_url: str
    fetched_at_ms: int
    models: tuple[ListedModel, ...]


class _File(msgspec.Struct, frozen=True):
    lists: dict[str, _Entry] = msgspec.field(default_factory=dict[str, _Entry])
    no_tools: dict[str, int] = msgspec.field(default_factory=dict[str, int])
    """When a model refused tools, by address and name."""


class ModelLists:
    """Lists by provider. `directory` None: nothing is kept beyond the process. Reading happens once, at first use."""

    def __init__(self, directory: Path | None, clock: Clock) -> None:
        self._path = None if directory is None else directory / FILE_NAME
        self._clock = clock
        self._loaded: _File | None = None

    def models(self, settings: ProviderSettings) -> tuple[ListedModel, ...]:
        """The last known list, however old; empty when there is none for this provider at this address."""
        entry = self._entry(settings)
        return () if entry is None else entry.models

    def is_fresh(self, settings: ProviderSettings) -> bool:
        """Whether the list was fetched within the last day."""
        entry = self._entry(settings)
        return entry is not None and 0 <= self._clock.now_ms() - entry.fetched_at_ms < FRESH_MS

    def put(self, settings: ProviderSettings, models: tuple[ListedModel, ...]) -> None:
        """Keep a list that was just fetched; `save` writes it."""
        self._file().lists[settings.name] = _Entry(base_url(settings), self._clock.now_ms(), models)

    def refuses_tools(self, settings: ProviderSettings, model: str) -> bool:
        """Whether a model said lately that it takes no tools."""
        refused = self._file().no_tools.get(f"{base_url(settings)} {model}")
        return refused is not None and 0 <= self._clock.now_ms() - refused < NO_TOOLS_MS

    def put_no_tools(self, settings: ProviderSettings, model: str) -> None:
        """Keep that a model takes no tools; `save` writes it."""
        self._file().no_tools[f"{base_url(settings)} {model}"] = self._clock.now_ms()

    def save(self) -> None:
        """Write the file. Blocking, for a worker thread. A directory that cannot be written only costs the cache."""
        if self._path is None:
            return
        data = msgspec.json.encode(self._file())
        # Whole or not at all: another process may read it at any moment.
        partial = self._path.with_suffix(f".{os.getpid()}.tmp")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            partial.write_bytes(data)
            partial.replace(self._path)
        except OSError:
            with suppress(OSError):
                partial.unlink(missing_ok=True)

    def _entry(self, settings: ProviderSettings) -> _Entry | None:
        entry = self._file().lists.get(settings.name)
        return entry if entry is not None and entry.base_url == base_url(settings) else None

    def _file(self) -> _File:
        if self._loaded is None:
            self._loaded = _read(self._path)
        return self._loaded


def _read(path: Path | None) -> _File:
    if path is None:
        return _File()
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
        return msgspec.json.decode(data, type=_File) if len(data) <= MAX_FILE_BYTES else _File()
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return _File()
