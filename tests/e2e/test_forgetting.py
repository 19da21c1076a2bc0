"""A passage that was said in ten forms, in every place of a session, is in no file after it was forgotten."""

import base64
import json
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest

from pattern_acp.db.connection import Transaction, open_database
from pattern_acp.db.table_rows import columns_of, each_row, ordinary_tables
from pattern_acp.domain.clock import SystemClock
from pattern_acp.journal.contents import unpack
from tests.support.editor import JsonDict, choose
from tests.support.process import Launch, running_process, write_script

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

PASSAGE = "Pförtner's office code “Ærøskøbing” 4711"

FORMS = {
    "as it is": PASSAGE,
    "composed": unicodedata.normalize("NFC", PASSAGE),
    "decomposed": unicodedata.normalize("NFD", PASSAGE),
    "capitals": PASSAGE.upper(),
    "small letters": PASSAGE.lower(),
    "soft hyphens": PASSAGE.replace("fi", "f\u00adi").replace("ør", "ø\u00adr"),
    "invisible characters": PASSAGE.replace("o", "o\u200b").replace("code", "co\u2060de"),
    "full width": "".join(chr(ord(one) + 0xFEE0) if "!" <= one <= "~" else one for one in PASSAGE),
    "ligatures": PASSAGE.replace("ff", "\ufb00"),
    "white space, quotes and hyphens": PASSAGE.replace(" ", "\u00a0 ")
    .replace("'", "\u2019")
    .replace("“", '"')
    .replace("”", '"'),
}

LETTERS = "ærøskøbing"
"""What is left of the passage in every form once marks, case and what nobody sees are gone."""


BACKUPS = Path("constellations", "default", "backups")


def bare(text: str) -> str:
    """Only letters and digits, without case and marks: by other means than those of the product."""
    apart = unicodedata.normalize("NFKD", text.casefold())
    return "".join(one for one in apart if one.isalnum())


def seen_in(data: bytes) -> bool:
    text = data.decode("utf-8", "ignore")
    # What JSON escapes reads like the letters themselves, at any depth.
    shown = re.sub(r"\\+u([0-9a-fA-F]{4})", lambda found: chr(int(found[1], 16)), text)
    return bare(LETTERS) in bare(shown)


def values_of(tx: Transaction) -> Iterator[tuple[str, bytes]]:
    """Everything that the tables hold, unpacked, and with what virtual tables keep for themselves."""
    for table in ordinary_tables(tx):
        names = columns_of(tx, table)
        for row in each_row(tx, table):
            cells = dict(zip(names, row, strict=True))
            for name, value in cells.items():
                if isinstance(value, str):
                    yield f"{table}.{name}", value.encode("utf-8", "surrogatepass")
                elif isinstance(value, bytes):
                    encoding = cells.get("encoding") if name == "content" else None
                    yield f"{table}.{name}", unpack(encoding, value) if isinstance(encoding, str) else value


async def places_in(home: Path) -> list[str]:
    """The places below `home` where a form of the passage is: files, cells of the database, lines of segments."""
    found = files_in(home)
    path = home / "constellations" / "default" / "constellation.db"
    async with open_database(path, clock=SystemClock(), read_only=True) as database:
        return found + await database.read(lambda tx: [place for place, value in values_of(tx) if seen_in(value)])


def files_in(home: Path) -> list[str]:
    found: list[str] = []
    for file in sorted(home.rglob("*")):
        if file.is_file():
            data = file.read_bytes()
            found += [str(file.relative_to(home))] if seen_in(data) else []
            if "segments" in file.parts:
                blobs = (part for line in data.splitlines() for part in _blobs(line))
                found += [f"{file.name}, packed"] if any(map(seen_in, blobs)) else []
    return found


def _blobs(line: bytes) -> Iterator[bytes]:
    for text in line.decode("utf-8", "ignore").split('"'):
        if len(text) > 64:
            try:
                yield base64.b64decode(text, validate=True)
            except ValueError:
                continue


@pytest.mark.parametrize("asked", [PASSAGE, PASSAGE.upper(), f'"{PASSAGE}"'], ids=["as it is", "capitals", "quoted"])
async def test_every_form_of_a_forgotten_passage_is_in_no_file(tmp_path: Path, asked: str):
    home, project = tmp_path / "home", tmp_path / "project"
    project.mkdir()
    forms = list(FORMS.values())
    write: JsonDict = {"tool": "memory_write", "arguments": {"label": "project", "operation": "append", "text": ""}}
    turns: list[list[JsonDict]] = []
    for form in forms:
        call = {**write, "arguments": {**write["arguments"], "text": f"Noted: {form}."}}
        plan = {"tool": "update_plan", "arguments": {"steps": [{"step": f"Ask about {form}", "status": "pending"}]}}
        file = {"tool": "write_file", "arguments": {"path": "note.txt", "content": f"{form}\n"}}
        turns += [[{"thinking": f"So {form}?"}, call, plan, file], [{"text": f"I noted that {form} is it."}]]
    turns += [[{"text": "Nothing of the kind."}]] * 3
    script = write_script(tmp_path, turns)
    async with running_process(Launch(home, environment=script, permission=choose("allow_once"))) as agent:
        session = await agent.editor.open_session(str(project))
        await agent.editor.prompt(session, "/remember project: The team meets at noon.")
        for number, (name, form) in enumerate(FORMS.items(), 1):
            await agent.editor.prompt(session, f"Mind this ({name}): {form}. It is private.")
            await agent.editor.prompt(session, f"/remember me: {form}, {name}")
            await agent.editor.prompt(session, f"/memory decision About {name}: {form}")
            await agent.editor.prompt(session, f"/tasks add Ask about {form}")
            await agent.editor.prompt(session, f"/task {number} comment Somebody said {form}, {name}")
        (project / "note.txt").unlink()
        assert await places_in(home), "planted"
        agent.editor.updates.clear()
        await agent.editor.prompt(session, f"/memory forget project {asked}")
        await agent.editor.prompt(session, f"/memory forget human {asked}")
        said = agent.editor.said()
        assert bare(LETTERS) not in bare(said)
        agent.editor.updates.clear()
        for shown in (
            "/memory show project",
            "/memory show human",
            "/recall office code",
            "/memory archive",
            "/tasks",
            "Well?",
        ):
            await agent.editor.prompt(session, shown)
        assert "meets at noon" in agent.editor.said()
        assert bare(LETTERS) not in bare(json.dumps(agent.editor.updates, ensure_ascii=False))
    # A snapshot that was made in between is named, and the user's to delete.
    left = [one for one in await places_in(home) if not (str(BACKUPS) in said and str(BACKUPS) in one)]
    assert left == [], said
