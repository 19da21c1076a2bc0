"""Segments on a server of NATS with JetStream, as objects of one bucket.

Owns: the connection and its deadlines. Must not know: what is in a segment. The server is asked for nothing but to keep
objects by name: it may lose them, or show old ones, as any carrier may. An object is cut into messages of 128 kB, so
that a segment may be larger than the server lets a message be. Objects are written here rather than by the client, and
in the form that it reads (https://github.com/nats-io/nats-architecture-and-design/blob/main/adr/ADR-20.md), so that
their messages begin with the device: a device finds what a killed process left half written, and removes it. Pieces of
versions that let the client name them are of no device: who meets some that are of no object removes them once they are
so old, by the clock of the server, that nobody can still be writing them.
"""

import json
import logging
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from hashlib import sha256
from socket import gaierror
from typing import NamedTuple, TypeVar

import anyio
import nats
import nats.errors
import nats.js.errors
from nats.aio.client import Client
from nats.js import JetStreamContext, api
from nats.js.object_store import ObjectStore

from pattern_acp.sync.segments import SegmentName, SyncError, name_of

_LOGGER = logging.getLogger(__name__)

BUCKET = "pattern-acp"
STREAM = f"OBJ_{BUCKET}"
"""The stream of the bucket."""

_CHUNKS = f"$O.{BUCKET}.C."
_CHUNK_BYTES = 128 * 1024

ANSWER_SECONDS = 10.0
"""Longest wait for a list, or for a connection."""

MOVE_SECONDS = 60.0
"""Longest wait for a segment to go or come."""

NAMELESS_SECONDS = 3_600.0
"""Age from which pieces that name no device count as left behind: far longer than a segment may take."""

T = TypeVar("T")


class _Bucket(NamedTuple):
    objects: ObjectStore
    stream: JetStreamContext


class NatsCarrier:
    """Moves segments through a server of NATS. It connects when it is first used."""

    def __init__(self, url: str, *, nameless_seconds: float = NAMELESS_SECONDS) -> None:
        self._url = url
        self._nameless_seconds = nameless_seconds
        self._client: Client | None = None
        self._bucket: _Bucket | None = None
        self._last: Sequence[SegmentName] = ()

    async def names(self) -> Sequence[SegmentName]:
        """See `Carrier.names`."""
        self._last = await self._do(_list, ANSWER_SECONDS)
        return self._last

    async def fetch(self, name: SegmentName) -> bytes:
        """See `Carrier.fetch`."""

        async def get(bucket: _Bucket) -> bytes:
            return (await bucket.objects.get(_object(name))).data or b""

        return await self._do(get, MOVE_SECONDS)

    async def put(self, name: SegmentName, content: bytes) -> None:
        """See `Carrier.put`."""

        async def write(bucket: _Bucket) -> None:
            nameless = await _remove_unfinished(bucket, name.device)
            try:
                await _write(bucket.stream, name, content)
            except nats.errors.Error:
                await _remove_unfinished(bucket, name.device)
                raise
            if nameless:
                await _remove_old(bucket.stream, nameless, name, self._nameless_seconds)

        await self._do(write, MOVE_SECONDS)

    async def remove(self, name: SegmentName) -> None:
        """See `Carrier.remove`."""

        async def delete(bucket: _Bucket) -> None:
            with suppress(nats.js.errors.NotFoundError):
                await bucket.objects.delete(_object(name))

        await self._do(delete, ANSWER_SECONDS)

    async def news(self) -> None:
        """See `Carrier.news`."""
        try:
            watcher = await self._do(lambda bucket: bucket.objects.watch(ignore_deletes=True), ANSWER_SECONDS)
            try:
                there, has_begun = list[SegmentName](), False
                # Those that are there come first, then a mark, then what is put there.
                async for info in watcher:
                    if info is not None and not has_begun:
                        there += _named(info.name)
                    elif info is not None or sorted(there) != list(self._last):
                        return
                    else:
                        has_begun = True
            finally:
                with anyio.CancelScope(shield=True), suppress(nats.errors.Error):
                    await watcher.stop()
        except SyncError:
            # The next exchange says what is wrong.
            await anyio.sleep(ANSWER_SECONDS)

    async def close(self) -> None:
        """See `Carrier.close`."""
        client, self._client, self._bucket = self._client, None, None
        if client is not None:
            with anyio.CancelScope(shield=True), anyio.move_on_after(1), suppress(nats.errors.Error, OSError):
                await client.close()

    async def _do(self, work: Callable[[_Bucket], Awaitable[T]], seconds: float) -> T:
        try:
            with anyio.fail_after(seconds):
                return await work(self._bucket or await self._connect())
        except (nats.errors.Error, TimeoutError, OSError) as error:
            await self.close()
            raise SyncError(f"The server {self._url} of sync cannot be used: {_reason(error)}.") from error

    async def _connect(self) -> _Bucket:
        failures: list[Exception] = []

        async def note(error: Exception) -> None:
            _LOGGER.info("The server of sync: %s", error)
            failures.append(error)

        try:
            self._client = client = await nats.connect(  # pyright: ignore[reportUnknownMemberType]  its options are untyped
                self._url,
                connect_timeout=int(ANSWER_SECONDS),
                allow_reconnect=False,
                # Zero would be for ever: the next exchange tries again.
                max_reconnect_attempts=1,
                reconnect_time_wait=0,
                error_cb=note,
            )
        except nats.errors.NoServersError:
            # It says nothing of why.
            raise (failures or [TimeoutError()])[-1] from None
        stream = client.jetstream(timeout=ANSWER_SECONDS)  # pyright: ignore[reportUnknownMemberType]  the same
        try:
            objects = await stream.object_store(BUCKET)
        except nats.js.errors.NotFoundError:
            objects = await stream.create_object_store(BUCKET)  # pyright: ignore[reportUnknownMemberType]  the same
        self._bucket = _Bucket(objects, stream)
        return self._bucket


async def _list(bucket: _Bucket) -> Sequence[SegmentName]:
    return sorted(name for info in await _objects(bucket) for name in _named(info.name))


async def _objects(bucket: _Bucket) -> Sequence[api.ObjectInfo]:
    try:
        return await bucket.objects.list(ignore_deletes=True)
    except nats.js.errors.NotFoundError:
        return ()


async def _write(stream: JetStreamContext, name: SegmentName, content: bytes) -> None:
    """Put an object there: its pieces, then what makes an object of them."""
    key = f"{name.device}-{secrets.token_hex(8)}"
    pieces = [content[at : at + _CHUNK_BYTES] for at in range(0, len(content), _CHUNK_BYTES)]
    for piece in pieces:
        await stream.publish(_CHUNKS + key, piece)
    info = {
        "name": _object(name),
        "bucket": BUCKET,
        "nuid": key,
        "size": len(content),
        "chunks": len(pieces),
        "digest": f"SHA-256={urlsafe_b64encode(sha256(content).digest()).decode()}",
        "options": {"max_chunk_size": _CHUNK_BYTES},
    }
    await stream.publish(_about(name), json.dumps(info).encode(), headers={"Nats-Rollup": "sub"})


def _about(name: SegmentName) -> str:
    """Return the subject of the message that makes an object of pieces."""
    return f"$O.{BUCKET}.M.{urlsafe_b64encode(_object(name).encode()).decode()}"


async def _remove_unfinished(bucket: _Bucket, device: str) -> Sequence[str]:
    """Remove pieces of a device that are of no object; returns the subjects of such pieces that name no device.

    One window of a device writes at a time.
    """
    pieces = (await bucket.stream.stream_info(STREAM, subjects_filter=f"{_CHUNKS}>")).state.subjects or {}
    whole = {f"{_CHUNKS}{info.nuid}" for info in await _objects(bucket)} if pieces else frozenset[str]()
    unfinished = [subject for subject in pieces if subject not in whole]
    for subject in unfinished:
        if subject.startswith(f"{_CHUNKS}{device}-"):
            await bucket.stream.purge_stream(STREAM, subject=subject)
    return [subject for subject in unfinished if "-" not in subject.removeprefix(_CHUNKS)]


async def _remove_old(stream: JetStreamContext, subjects: Sequence[str], written: SegmentName, seconds: float) -> None:
    """Remove pieces whose last one came so many seconds before an object that was written just now."""
    now = (await stream.get_last_msg(STREAM, _about(written))).time
    for subject in subjects:
        last = (await stream.get_last_msg(STREAM, subject)).time
        if now is not None and last is not None and (now - last).total_seconds() >= seconds:
            await stream.purge_stream(STREAM, subject=subject)


def _object(name: SegmentName) -> str:
    return f"{name.device}/{name.file}"


def _named(text: str | None) -> Sequence[SegmentName]:
    device, _, file = (text or "").partition("/")
    found = name_of(device, file)
    return () if found is None else (found,)


def _reason(error: Exception) -> str:
    """The reason why a server cannot be used, and what to do."""
    match error:
        case TimeoutError():
            return "it does not answer in time"
        case ConnectionError():
            return "nothing answers at this address; start it, or correct url in [sync] of config.toml"
        case gaierror():
            return "no machine of this name is known; correct url in [sync] of config.toml, or connect to its network"
        case nats.js.errors.APIError() if "insufficient" in (error.description or ""):
            return "it is full; give its JetStream more space (max_file_store)"
        case nats.js.errors.ServiceUnavailableError() | nats.js.errors.NoStreamResponseError():
            return "it has no JetStream; start it with nats-server -js"
        case nats.js.errors.APIError() if error.description:
            return error.description
        case _:
            said = str(error).removeprefix("nats: ").strip("'.")
            if said.lower() == "authorization violation":
                return "it wants a name and a password, which sync has none of (docs/how-to/sync.md)"
            return said or "the connection was cut"
