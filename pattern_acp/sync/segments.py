"""Segments: the encrypted pieces in which a device tells the others what its memory says, and the carrier by a folder.

Owns: the form of a segment, its name and its encryption; the port that moves segments; and the files of one that any
file-sync tool keeps the same on several machines: `FOLDER/DEVICE/NUMBER.segment`, written once and never changed. Must
not know: what the archive inside says. Other files of the folder are left alone: those that are not yet all here, and
the copies that such tools make when they see a conflict.

The one who moves segments sees their names, sizes and times, and nothing else. A segment that was changed, or that
stands under another name, does not open: its name is part of what the cipher proves. So a carrier can drop, repeat,
reorder or replay segments, which costs time, and it cannot make one.
"""

import os
import re
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Protocol, TypeVar

import anyio
import anyio.to_thread
import msgspec
from msgspec import Struct

from pattern_acp.domain.errors import PatternError
from pattern_acp.memory.service.forget import ForgottenWords

MAGIC = b"pattern-acp sync 1\n"
KEY_BYTES = 32
_KEY_ID_BYTES = 8
_NONCE_BYTES = 12
_HEADER_BYTES = len(MAGIC) + _KEY_ID_BYTES

_NAME = re.compile(r"(?P<number>\d{8})(?P<whole>\.whole)?\.segment")
DEVICE = re.compile(r"device_[0-9a-f]{32}")


class SyncError(PatternError):
    """Memory could not be exchanged with the other devices; nothing is lost, and it is tried again."""

    failure_code = "sync.unavailable"


class SyncKeyError(PatternError):
    """There is no usable key, or the devices have different ones."""

    failure_code = "sync.key"


class DeviceRevokedError(PatternError):
    """This device was revoked by another one of the user."""

    failure_code = "sync.revoked"

    def __init__(self) -> None:
        super().__init__("This device was revoked by another one: nothing is exchanged any more.")


class SegmentName(Struct, frozen=True, order=True):
    """The name of a segment. Numbers of a device go up by one; a `whole` one says all that those before it said."""

    device: str
    number: int
    whole: bool = False

    @property
    def file(self) -> str:
        """The name as a file of the device's folder."""
        return f"{self.number:08d}{'.whole' if self.whole else ''}.segment"


def name_of(device: str, file: str) -> SegmentName | None:
    """The name of a segment; None for anything else, such as the copies that a file-sync tool makes of a conflict."""
    found = _NAME.fullmatch(file)
    if found is None or not DEVICE.fullmatch(device):
        return None
    return SegmentName(device, int(found["number"]), found["whole"] is not None)


class Forgetting(Struct, frozen=True):
    """Words that were forgotten on a device, and when."""

    id: str
    at_ms: int
    words: ForgottenWords


class Segment(Struct, frozen=True):
    """The content of a segment."""

    archive: bytes
    """An archive of the changes (pattern_acp/carry)."""
    host: str
    """The name that the user knows the device by."""
    seen: dict[str, int]
    """The last segment of each other device that this one has."""
    revoked: tuple[str, ...] = ()
    """Devices whose segments nobody should take any more."""
    at_ms: int = 0
    forgotten: tuple[Forgetting, ...] = ()
    """Forgettings that its readers follow."""
    followed: tuple[str, ...] = ()
    """The forgettings that its device knew of, and had followed."""


class Carrier(Protocol):
    """Moves segments between devices. It may lose, repeat, delay or mix them up; it must not be trusted."""

    async def names(self) -> Sequence[SegmentName]:
        """The segments that are there. Raises SyncError where it cannot be reached."""
        ...

    async def fetch(self, name: SegmentName) -> bytes:
        """A segment as it was put there, or whatever is there now.

        Raises:
            SyncError: it is not there, or is not available now.
        """
        ...

    async def put(self, name: SegmentName, content: bytes) -> None:
        """Put a segment there, as a whole or not at all. Raises SyncError where it cannot be put there."""
        ...

    async def remove(self, name: SegmentName) -> None:
        """Remove a segment; one that is not there is removed already. Raises SyncError where it cannot be removed."""
        ...

    async def news(self) -> None:
        """Return once there may be segments that were not there before."""
        ...

    async def close(self) -> None:
        """Let go of it."""
        ...


def new_key() -> bytes:
    """A key that nobody else has."""
    return secrets.token_bytes(KEY_BYTES)


def key_text(key: bytes) -> str:
    """A key as the user copies it from one device to another: groups of letters and digits, and a check at the end."""
    digits = (key + _check(key)).hex()
    return "-".join(digits[at : at + 6] for at in range(0, len(digits), 6))


def read_key(text: str) -> bytes:
    """The key of a text that `key_text` made. Raises SyncKeyError where it is none, or was not copied as a whole."""
    try:
        content = bytes.fromhex("".join(text.split()).replace("-", ""))
    except ValueError:
        content = b""
    key, check = content[:KEY_BYTES], content[KEY_BYTES:]
    if len(key) != KEY_BYTES or check != _check(key):
        raise SyncKeyError("That is not a key of sync; copy all that `pattern-acp sync key show` prints.")
    return key


def seal(key: bytes, name: SegmentName, segment: Segment) -> bytes:
    """Encrypt a segment under its name."""
    header = MAGIC + _key_id(key)
    return header + encrypt(key, msgspec.msgpack.encode(segment), header=header, about=_about(name))


def unseal(key: bytes, name: SegmentName, content: bytes) -> Segment | None:
    """The content of a segment; None for one that is torn, was changed, or is not the one of this name.

    Raises:
        SyncKeyError: it was encrypted with another key.
    """
    header = content[:_HEADER_BYTES]
    if len(header) < _HEADER_BYTES or not header.startswith(MAGIC):
        return None
    if header[len(MAGIC) :] != _key_id(key):
        raise SyncKeyError(
            "A device writes with another key: run `pattern-acp sync key show` on one device, and "
            "`pattern-acp sync key set` on the other."
        )
    try:
        said = decrypt(key, content[_HEADER_BYTES:], header=header, about=_about(name))
        return None if said is None else msgspec.msgpack.decode(said, type=Segment)
    except msgspec.MsgspecError:
        return None


def encrypt(key: bytes, content: bytes, *, about: bytes, header: bytes = b"") -> bytes:
    """Encrypt a content, which opens only with the same key, header, and thing that it is `about`."""
    # Late: a start without sync loads no cipher.
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    nonce = secrets.token_bytes(_NONCE_BYTES)
    return nonce + ChaCha20Poly1305(key).encrypt(nonce, content, header + nonce + about)


def decrypt(key: bytes, content: bytes, *, about: bytes, header: bytes = b"") -> bytes | None:
    """The content of what `encrypt` made; None for anything else."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    nonce, sealed = content[:_NONCE_BYTES], content[_NONCE_BYTES:]
    try:
        return ChaCha20Poly1305(key).decrypt(nonce, sealed, header + nonce + about)
    except (InvalidTag, ValueError):
        return None


def _about(name: SegmentName) -> bytes:
    return f"{name.device}/{name.file}".encode()


def _key_id(key: bytes) -> bytes:
    return sha256(b"pattern-acp sync key\n" + key).digest()[:_KEY_ID_BYTES]


def _check(key: bytes) -> bytes:
    return sha256(b"pattern-acp sync check\n" + key).digest()[:4]


LOOK_SECONDS = 2.0
"""Between two looks for what came: no tool tells it in a way that works everywhere."""

MOST_BYTES = 1_000_000_000
"""The largest file that is read."""

T = TypeVar("T")


class FolderCarrier:
    """Moves segments by files of one folder, in which each device writes into a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._last: Sequence[SegmentName] = ()

    async def names(self) -> Sequence[SegmentName]:
        """See `Carrier.names`."""
        self._last = await self._run(self._list)
        return self._last

    async def require_writable(self) -> None:
        """Find out whether anything can be put there. Raises SyncError where it can be read alone, or not at all."""
        if not await self._run(lambda: os.access(self._folder, os.W_OK | os.X_OK)):
            raise SyncError(
                f"The folder {self._folder} of sync cannot be written to: what others wrote comes, and what is new "
                "here does not go. Give yourself the right to write there."
            )

    async def fetch(self, name: SegmentName) -> bytes:
        """See `Carrier.fetch`."""
        return await self._run(lambda: _read(self._path(name)))

    async def put(self, name: SegmentName, content: bytes) -> None:
        """See `Carrier.put`."""
        await self._run(lambda: _write(self._path(name), content))

    async def remove(self, name: SegmentName) -> None:
        """See `Carrier.remove`."""
        await self._run(lambda: self._path(name).unlink(missing_ok=True))

    async def news(self) -> None:
        """See `Carrier.news`."""
        while True:
            await anyio.sleep(LOOK_SECONDS)
            with suppress(SyncError):
                if await self._run(self._list) != self._last:
                    return

    async def close(self) -> None:
        """See `Carrier.close`."""

    def _list(self) -> Sequence[SegmentName]:
        if not self._folder.is_dir():
            # Not made here: where a disk or a tool's folder is not mounted, one would be made beside it.
            raise SyncError(f"The folder {self._folder} of sync is not there; make it, or mount what it is on.")
        found: list[SegmentName] = []
        for device in self._folder.iterdir():
            if device.is_dir() and device.name.startswith("device_"):
                found += [name for file in device.iterdir() if (name := name_of(device.name, file.name))]
        return sorted(found)

    def _path(self, name: SegmentName) -> Path:
        return self._folder / name.device / name.file

    async def _run(self, work: Callable[[], T]) -> T:
        try:
            # A drive that does not answer must not hold up the end of a process.
            return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
        except OSError as error:
            raise SyncError(f"The folder {self._folder} of sync cannot be used ({error.strerror or error}).") from error


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(MOST_BYTES)


def _write(path: Path, content: bytes) -> None:
    """Write a file that is there as a whole or not at all, also after the power fails."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    for left in path.parent.glob(".*.part"):
        # A process that was killed while it wrote left it; one writes into this folder at a time.
        left.unlink(missing_ok=True)
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
