"""Checks an exported bundle, with the standard library alone: `python -m pattern_acp.journal.verify_bundle FILE`.

Owns: what makes a bundle sound. Must not know: the rest of pattern-acp, which it does not import, so that this one file
can be read, copied and run by the one who doubts it. docs/reference/journal.md describes the form that is checked here,
and journal/writer.py the hashes; tests/journal/golden holds vectors that both are tested against.

The chain is not keyed. It shows that a bundle was changed by somebody who did not compute every hash behind the change
again; against one who did, or who cut events off the end, only an anchor helps: the hash of an event, noted elsewhere.
"""

import hashlib
import json
import re
import sys
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, cast

FORMAT = "pattern-acp journal bundle"
MANIFEST = "manifest.json"
EVENTS = "events.jsonl"
BLOBS = "blobs/"
FIRST_PREV_HASH = "0" * 64

_NAMES = frozenset(
    {"stream", "seq", "session_seq", "kind", "actor", "origin", "item", "at_ms", "version", "chain", "payload_hash"}
    | {"prev_hash", "hash"}
)
"""The keys of every event line. A masked one has its masked payload besides, others have more."""

MOST_BYTES = 4_000_000_000
"""Bytes of a bundle when it is unpacked; a file of more is refused unread."""

Fields = Mapping[str, Any]


class BundleError(ValueError):
    """The bundle is not sound; the message says why. `index` is the number of the event in its stream, 0 for none."""

    def __init__(self, problem: str, *, stream: str = "", index: int = 0) -> None:
        super().__init__(problem)
        self.stream = stream
        self.index = index


@dataclass(frozen=True)
class Anchor:
    """The hash that the event number `index` of a stream had when somebody noted it."""

    stream: str
    index: int
    hash: str


@dataclass(frozen=True)
class BundleReport:
    """The findings. `proven` payloads are what the chain says; `masked` and `redacted` ones lost words."""

    session: str = ""
    ok: bool = True
    events: int = 0
    proven: int = 0
    masked: int = 0
    redacted: int = 0
    outside: int = 0
    """Redacted events whose redaction was recorded in a stream that the bundle does not hold."""
    head: str = ""
    anchored: bool = False
    stream: str = ""
    index: int = 0
    problem: str = ""


@dataclass
class _State:
    """The state of the streams that were read so far."""

    anchors: tuple[Anchor, ...]
    found_anchors: int = 0
    hashes: dict[tuple[str, int], tuple[int, str]] = field(default_factory=dict[tuple[str, int], tuple[int, str]])
    """By stream and index: the number over all streams, and the hash."""
    payloads: dict[int, Fields] = field(default_factory=dict[int, Fields])
    """Payloads that say something about other events: redactions, and where a session began."""
    redacted: dict[int, list[tuple[int, str]]] = field(default_factory=dict[int, list[tuple[int, str]]])
    newest: int = 0
    """The newest event of all streams at the last checkpoint that was read of this stream."""
    proven: int = 0
    masked: int = 0
    blobs: set[str] = field(default_factory=set[str])


def parse_anchor(text: str) -> Anchor:
    """The anchor in a text, which may hold other words around it. Raises ValueError where there is none."""
    found = re.search(r"(\S+):(\d+):([0-9a-f]{64})\b", text)
    if found is None:
        raise ValueError("An anchor reads SESSION:NUMBER:HASH, as `pattern-acp journal anchor` prints it.")
    return Anchor(found[1], int(found[2]), found[3])


def verify_bundle(path: Path, anchors: Sequence[Anchor] = ()) -> BundleReport:
    """Check everything that can be checked; the report names the first thing that is wrong.

    Raises:
        OSError: the file cannot be read.
    """
    try:
        with zipfile.ZipFile(path) as bundle:
            return _verified(bundle, _State(tuple(anchors)))
    except BundleError as error:
        return BundleReport(ok=False, stream=error.stream, index=error.index, problem=str(error))
    except (zipfile.BadZipFile, LookupError, TypeError, ValueError, RecursionError, NotImplementedError) as error:
        return BundleReport(ok=False, problem=f"it is not a bundle, or was cut ({type(error).__name__})")


def canonical_json(value: object) -> bytes:
    """The one form of a JSON value: UTF-8, keys sorted, no white space, no fractions."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.encode("utf-8", "surrogatepass")


def chain_hash(event: Fields, prev_hash: str) -> str:
    """The hash of an event that follows `prev_hash`."""
    names = ("payload_hash", "kind", "actor", "origin", "item", "session_seq")
    covered = [prev_hash, *(event[name] for name in names)]
    if event["chain"] != 1:
        covered += [event["version"], event["at_ms"], event["stream"], event["chain"]]
    return _sha256(canonical_json(covered))


def parse_json(data: bytes) -> object:
    """JSON in which every name is once and no number has a fraction: what can be read in one way only.

    Raises:
        ValueError: it is something else.
    """
    return json.loads(
        data.decode("utf-8", "surrogatepass"),
        object_pairs_hook=_once,
        parse_float=_refuse_fraction,
        parse_constant=_refuse_fraction,
    )


def describe(report: BundleReport) -> str:
    """The report in words."""
    if not report.ok:
        where = f"event {report.index} of {report.stream}: " if report.index else ""
        return f"NOT SOUND. {where}{report.problem}."
    parts = [f"Sound: {report.events} events, {report.proven} payloads proven by the chain"]
    if report.masked:
        parts.append(f"{report.masked} masked for the export and not proven")
    if report.redacted:
        parts.append(f"{report.redacted} redacted")
    if report.outside:
        parts.append(f"{report.outside} of these by an event outside of this bundle, which cannot be checked here")
    sentence = "; ".join(parts) + "."
    if report.anchored:
        return f"{sentence} The anchor fits."
    return f"{sentence} Without an anchor, a recomputed or shortened chain cannot be recognised."


def main(arguments: Sequence[str]) -> int:
    """Check the bundle that the command line names; 0 when it is sound, 1 when not, 2 for a wrong command line."""
    if len(arguments) not in {1, 2}:
        sys.stderr.write("usage: python -m pattern_acp.journal.verify_bundle FILE [ANCHOR]\n")
        return 2
    try:
        report = verify_bundle(Path(arguments[0]), [parse_anchor(text) for text in arguments[1:]])
    except (OSError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(describe(report) + "\n")
    return 0 if report.ok else 1


def _verified(bundle: zipfile.ZipFile, state: _State) -> BundleReport:
    manifest = _manifest(bundle)
    _check_files(bundle, manifest)
    _check_events(bundle, manifest, state)
    if manifest["session"] != manifest["streams"][-1]["stream"]:
        raise BundleError("its manifest names another session than the last one in it")
    outside = _check_audits(manifest, state)
    if state.found_anchors < len(state.anchors):
        raise BundleError("the event that the anchor names is not in it: the end was cut off")
    if state.masked and manifest["redaction"] == "none":
        raise BundleError("events are masked although its manifest says that nothing was left out")
    return BundleReport(
        str(manifest["session"]),
        events=len(state.hashes),
        proven=state.proven,
        masked=state.masked,
        redacted=sum(len(each) for each in state.redacted.values()),
        outside=outside,
        head=str(manifest["streams"][-1]["head"]),
        anchored=bool(state.anchors),
    )


def _manifest(bundle: zipfile.ZipFile) -> Fields:
    infos = bundle.infolist()
    if len({info.filename for info in infos}) != len(infos):
        raise BundleError("it holds two files of one name")
    if sum(info.file_size for info in infos) > MOST_BYTES:
        raise BundleError(f"it unpacks to more than {MOST_BYTES} bytes")
    manifest = cast("Fields", parse_json(bundle.read(MANIFEST)))
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT or manifest.get("format_version") != 1:
        raise BundleError("it is not a bundle of a journal, or one of a newer pattern-acp")
    return manifest


def _check_files(bundle: zipfile.ZipFile, manifest: Fields) -> None:
    listed = cast("Mapping[str, str]", manifest["files"])
    there = set(bundle.namelist()) - {MANIFEST}
    for name in sorted(there ^ set(listed)):
        raise BundleError(f"{name} is " + ("not in its manifest" if name in there else "missing"))
    for name, expected in listed.items():
        digest = hashlib.sha256()
        with bundle.open(name) as file:
            while piece := file.read(1 << 20):
                digest.update(piece)
        # The events say themselves where they were changed.
        if digest.hexdigest() != expected and name != EVENTS:
            raise BundleError(f"{name} was changed")


def _check_events(bundle: zipfile.ZipFile, manifest: Fields, state: _State) -> None:
    lines = bundle.read(EVENTS).split(b"\n")
    if lines.pop() != b"":
        raise BundleError("its last event was cut")
    place = 0
    for stream in manifest["streams"]:
        place = _check_stream(bundle, stream, lines, place, state)
    if place != len(lines):
        raise BundleError("it holds events behind the last one of its manifest")
    if _sha256(bundle.read(EVENTS)) != manifest["files"][EVENTS]:
        raise BundleError(f"{EVENTS} was changed")
    unused = {name for name in bundle.namelist() if name.startswith(BLOBS)} - state.blobs
    if unused:
        raise BundleError(f"no event has {min(unused)}")


def _check_stream(bundle: zipfile.ZipFile, stream: Fields, lines: list[bytes], place: int, state: _State) -> int:
    name, count = str(stream["stream"]), int(stream["events"])
    before, last_seq, state.newest = FIRST_PREV_HASH, 0, 0
    for index in range(1, count + 1):
        if place >= len(lines):
            raise BundleError(f"the end was cut off: there are {index - 1} of {count} events", stream=name, index=index)
        try:
            event = cast("Fields", parse_json(lines[place]))
            problem = _check_form(event, lines[place])
            problem = problem or _check_event(bundle, event, name, index, before, last_seq, state)
        except (AttributeError, LookupError, TypeError, ValueError, RecursionError):
            raise BundleError("it cannot be read", stream=name, index=index) from None
        if problem:
            raise BundleError(problem, stream=name, index=index)
        before, last_seq, place = str(event["hash"]), int(event["seq"]), place + 1
    if before != stream["head"]:
        raise BundleError("the last event is not the one of the manifest", stream=name, index=count)
    return place


def _check_form(event: Fields, line: bytes) -> str:
    """Return whether a line says nothing that no event says, and says it in the one way in which lines are written."""
    masked = event.get("masked")
    more = {"masked", "payload"} if masked else {"salt", "redacted", "blob" if "blob" in event else "payload"}
    redacted = cast("Fields", event.get("redacted") or {})
    unknown = sorted({*set(event) - _NAMES - more, *set(redacted) - {"payload_hash", "by"}})
    if unknown:
        return f"it says {str(unknown[0])[:40]!r}, which no such event does"
    if masked not in {None, True} or canonical_json(event) != line:
        return "it is not written as events are"
    return ""


def _check_event(
    bundle: zipfile.ZipFile, event: Fields, stream: str, index: int, before: str, last_seq: int, state: _State
) -> str:
    if event["stream"] != stream or event["session_seq"] != index:
        return "it is missing, or not in its place"
    if int(event["seq"]) <= last_seq:
        return "the events are not in the order in which they were appended"
    problem = _check_payload(bundle, event, state) or _check_number(event, last_seq, state)
    if problem:
        return problem
    if event["prev_hash"] != before:
        return "it does not follow the event before it"
    if event["chain"] not in {1, 2} or event["hash"] != chain_hash(event, before):
        return "its kind, version, time, actor, origin, item or place was changed"
    for anchor in state.anchors:
        if (anchor.stream, anchor.index) == (stream, index):
            if anchor.hash != event["hash"]:
                return "it is not the event that the anchor was made of: the chain was recomputed"
            state.found_anchors += 1
    state.hashes[stream, index] = (int(event["seq"]), str(event["hash"]))
    return "" if index > 1 else _check_fork(event, state)


def _check_payload(bundle: zipfile.ZipFile, event: Fields, state: _State) -> str:
    if event.get("masked"):
        state.masked += 1
        return ""
    blob = event.get("blob")
    if blob is not None:
        if f"{BLOBS}{blob}" not in bundle.namelist():
            return "its payload is missing"
        stored = bundle.read(f"{BLOBS}{blob}")
        state.blobs.add(f"{BLOBS}{blob}")
        if _sha256(stored) != blob:
            return "its payload was changed"
    else:
        stored = canonical_json(event["payload"])
    redacted = event.get("redacted")
    if redacted is not None:
        state.redacted.setdefault(int(redacted["by"]), []).append((int(event["seq"]), _sha256(stored)))
        return "" if _sha256(stored) == redacted["payload_hash"] else "its payload was changed"
    if _sha256(str(event["salt"]).encode() + stored) != event["payload_hash"]:
        return "its payload was changed"
    state.proven += 1
    if event["kind"] in {"events_redacted", "block_forgotten", "session_created", "checkpoint_taken"}:
        state.payloads[int(event["seq"])] = cast("Fields", parse_json(stored))
    return ""


def _check_number(event: Fields, last_seq: int, state: _State) -> str:
    """The hash covers no number over all streams, but a checkpoint says which was the newest when it was taken."""
    if int(event["seq"]) <= state.newest:
        return "its number over all streams is below one that the checkpoint before it knew"
    newest = int(state.payloads.get(int(event["seq"]), {}).get("global_seq", 0))
    if newest and not last_seq <= newest < int(event["seq"]):
        return "its number over all streams, or that of the event before it, is not what this checkpoint says"
    state.newest = max(state.newest, newest)
    return ""


def _check_fork(first: Fields, state: _State) -> str:
    """A session that was forked names the event that it began behind; the bundle holds it unless it is masked."""
    created = state.payloads.get(int(first["seq"]), {})
    if not created.get("fork_hash"):
        return ""
    behind = (created["fork_seq"], created["fork_hash"])
    is_there = any(key[0] == created["parent"] and event == behind for key, event in state.hashes.items())
    return "" if is_there else "the history that it shares with the session it was forked from was changed"


def _check_audits(manifest: Fields, state: _State) -> int:
    """Count the redactions recorded elsewhere; each that was recorded here must be just what its event says."""
    outside = 0
    here = {seq for seq, _ in state.hashes.values()}
    for by, redacted in state.redacted.items():
        audit = state.payloads.get(by)
        if audit is None:
            if by in here:
                stream, index = next(key for key, (seq, _) in state.hashes.items() if seq == by)
                raise BundleError("it says nothing of the words that are gone", stream=stream, index=index)
            outside += len(redacted)
            continue
        done = [[int(seq), str(hashed)] for seq, hashed in manifest["audits"][str(by)]]
        fits = _sha256(canonical_json(done)) == audit["redaction"]
        if not fits or any([seq, hashed] not in done for seq, hashed in redacted):
            stream, index = next(key for key, (seq, _) in state.hashes.items() if seq == by)
            raise BundleError("words were taken out in another way than it says", stream=stream, index=index)
    return outside


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands twice")
    return found


def _refuse_fraction(text: str) -> NoReturn:
    raise ValueError(f"{text} is no whole number")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
