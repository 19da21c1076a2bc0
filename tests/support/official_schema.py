"""The official JSON schemas of ACP v1 and v2, fetched when a test asks for one.

Owns: checking values against their definitions, and getting `schema/v1/schema.json` and `schema/v2/schema.json` out of
the npm package that carries them, and of the unstable schemas what we offer. They are not vendored: they are the
protocol's own files, and the newest ones are the judges.
"""

import functools
import json
import re
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast
from zlib import crc32

from jsonschema_rs import Draft202012Validator, ValidationError

from pattern_acp.domain.canonical import JsonObject
from tests.support.programs import path_of, problem_of

PACKAGE = "@agentclientprotocol/sdk@2.4.0"
"""The package and version whose schema tag our structs were checked against."""

MEMBER = "package/schema/v1/schema.json"
UNSTABLE_MEMBER = "package/schema/v1/schema.unstable.json"
SECOND_MEMBER = "package/schema/v2/schema.json"
SECOND_UNSTABLE_MEMBER = "package/schema/v2/schema.unstable.json"

UNSTABLE_DEFINITIONS = ("ForkSessionResponse",)
"""What is taken from the unstable schema; all that it refers to is stable."""

SECOND_UNSTABLE_DEFINITIONS = (
    "AgentAuthCapabilities",
    "AgentCapabilities",
    "AuthAccount",
    "AuthState",
    "AuthStatusCapabilities",
    "AuthStatusResponse",
    "DisableProviderResponse",
    "ListProvidersResponse",
    "LlmProtocol",
    "ProviderCurrentConfig",
    "ProviderId",
    "ProviderInfo",
    "ProvidersCapabilities",
    "SetProviderResponse",
    "ArchiveSessionResponse",
    "ForkSessionResponse",
    "IdleStateUpdate",
    "PlanRemoved",
    "SessionCancelCapabilities",
    "SessionMessage",
    "SessionMessageChunk",
    "SessionUpdate",
    "SubagentSessionCapabilities",
    "SubagentUpdate",
    "McpAcpCapabilities",
    "McpCapabilities",
    "McpRequestId",
    "McpServerAcpId",
    "MessageMcpRequest",
    "SessionArchiveCapabilities",
    "SessionCapabilities",
    "SessionForkCapabilities",
    "SessionInfo",
    "SessionStatus",
    "SessionStatusCapabilities",
    "SessionStatusResponse",
    "SessionSystemPromptCapabilities",
    "SessionTitleCapabilities",
    "SetSessionTitleResponse",
    "UnarchiveSessionResponse",
    "Usage",
)
"""What is taken from the unstable schema of version 2: what we offer, and what that refers to."""

_REFERENCE = re.compile(r'"#/\$defs/(\w+)"')

_SECOND_FILE = f"second-closed-{crc32(' '.join(SECOND_UNSTABLE_DEFINITIONS).encode()):08x}.json"

FETCH_SECONDS = 20
"""Well below a test's own limit (pyproject.toml)."""


@functools.cache
def official_schema() -> JsonObject | None:
    """The schema, or None where npm is missing or cannot fetch. Kept in the system's temporary directory."""
    return _had(_kept_file("with-fork.json"), _first)


@functools.cache
def second_schema() -> JsonObject | None:
    """The schema of version 2, as `official_schema`."""
    return _had(_kept_file(_SECOND_FILE), _second)


class SchemaCheck:
    """Checks of values against the definitions of one schema, each compiled when it is first used."""

    def __init__(self, schema: JsonObject) -> None:
        self.definitions = cast("dict[str, object]", schema["$defs"])
        self.property_names = _property_names(schema)
        """Every name that a definition knows."""
        self._compiled: dict[str, Draft202012Validator] = {}

    def fault_of(self, name: str, value: object) -> str:
        """Return where and why a definition refuses a value; empty where it does not."""
        if name not in self._compiled:
            self._compiled[name] = Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": self.definitions})
        try:
            self._compiled[name].validate(value)
        except ValidationError as fault:
            where = ".".join(str(step) for step in fault.instance_path) or "its root"
            return f"{name} at {where}: {fault.message[:2000]}"
        return ""


def _property_names(value: object) -> frozenset[str]:
    if isinstance(value, dict):
        members = cast("dict[str, object]", value)
        own = members.get("properties")
        names = frozenset(cast("dict[str, object]", own)) if isinstance(own, dict) else frozenset[str]()
        return names.union(*map(_property_names, members.values()))
    if isinstance(value, list):
        return frozenset[str]().union(*map(_property_names, cast("list[object]", value)))
    return frozenset()


_CHECKS: dict[int, SchemaCheck] = {}
"""One a schema; its definitions stay with it, so that no other schema takes its identity."""


def check_of(schema: JsonObject) -> SchemaCheck:
    """Return the one check of a schema in this process."""
    key = id(schema["$defs"])
    if key not in _CHECKS:
        _CHECKS[key] = SchemaCheck(schema)
    return _CHECKS[key]


def kept_schema() -> JsonObject | None:
    """The schema if an earlier test fetched it; never fetches.

    That it is not there yet is not kept: who is judged by it would depend on which test came first.
    """
    kept = _kept_file("with-fork.json")
    return _read(kept) if kept.exists() else None


def kept_second_schema() -> JsonObject | None:
    """The schema of version 2 if an earlier test fetched it, as `kept_schema`."""
    kept = _kept_file(_SECOND_FILE)
    return _read(kept) if kept.exists() else None


def _had(kept: Path, make: Callable[[tarfile.TarFile], bytes]) -> JsonObject | None:
    folder = kept.parent
    if not kept.exists():
        text = _fetch(make)
        if text is None:
            return None
        folder.mkdir(parents=True, exist_ok=True)
        # Another test process may be doing the same: the file appears whole or not at all.
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as part:
            part.write(text)
        Path(part.name).replace(kept)
    return _read(kept)


@functools.cache
def _read(kept: Path) -> JsonObject:
    return cast("JsonObject", json.loads(kept.read_text(encoding="utf-8")))


def _kept_file(name: str) -> Path:
    return Path(tempfile.gettempdir()) / "pattern-acp-official-schema" / PACKAGE.rpartition("@")[2] / name


def _fetch(make: Callable[[tarfile.TarFile], bytes]) -> bytes | None:
    if problem_of("npm"):
        return None
    npm = path_of("npm")
    with tempfile.TemporaryDirectory() as folder:
        command = [npm, "pack", PACKAGE, "--silent"]
        try:
            subprocess.run(command, cwd=folder, check=True, timeout=FETCH_SECONDS, capture_output=True)
            archive = next(Path(folder).glob("*.tgz"))
            with tarfile.open(archive) as package:
                return make(package)
        except (subprocess.SubprocessError, OSError, StopIteration, KeyError):
            return None


def _first(package: tarfile.TarFile) -> bytes:
    return _with_unstable(_member(package, MEMBER), _member(package, UNSTABLE_MEMBER), UNSTABLE_DEFINITIONS)


def _second(package: tarfile.TarFile) -> bytes:
    unstable = _member(package, SECOND_UNSTABLE_MEMBER)
    return _with_unstable(_member(package, SECOND_MEMBER), unstable, SECOND_UNSTABLE_DEFINITIONS)


def _member(package: tarfile.TarFile, name: str) -> dict[str, dict[str, object]]:
    member = package.extractfile(name)
    if member is None:
        raise KeyError(name)
    return cast("dict[str, dict[str, object]]", json.loads(member.read()))


def _with_unstable(
    stable: dict[str, dict[str, object]], unstable: dict[str, dict[str, object]], names: Sequence[str]
) -> bytes:
    for name in names:
        stable["$defs"][name] = unstable["$defs"][name]
    # What we do not offer is refused wherever it comes.
    missing = set(_REFERENCE.findall(json.dumps(stable))) - set(stable["$defs"])
    stable["$defs"] |= dict.fromkeys(missing, False)
    return json.dumps(stable).encode()
