"""Pages in headless Chromium: what a session holds stays text, turns fold, and the chart is drawn."""

import subprocess
from pathlib import Path

import pytest

from pattern_acp.commands.pages import usage_page
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import MessageId, SessionId, TurnId
from pattern_acp.domain.messages import Message, Role, TextPart
from pattern_acp.domain.usage import Usage
from pattern_acp.journal.events import MessageRecorded, TurnStarted
from pattern_acp.journal.reader import Recorded
from pattern_acp.journal.usage import UsedOnce
from pattern_acp.session.transcript import conversation_html

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.needs("chromium")]

EVIL = "</title></style><script>document.title='run'</script><img src=x onerror=\"document.title='run'\">"
TURN = TurnId("t")


def rendered(html: str, folder: Path) -> str:
    """The page as the browser has it once its scripts, if it had any, have run."""
    page = folder / "page.html"
    page.write_text(html, encoding="utf-8")
    options = (
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--virtual-time-budget=2000",
        f"--user-data-dir={folder}/c",
    )
    done = subprocess.run(
        ["chromium", *options, "--dump-dom", page.as_uri()], capture_output=True, text=True, timeout=100, check=True
    )
    return done.stdout


def test_a_hostile_session_runs_nothing_and_its_turns_fold(tmp_path: Path):
    said = (
        TurnStarted(TURN, Message(MessageId("u"), Role.USER, (TextPart(EVIL),))),
        MessageRecorded(TURN, Message(MessageId("m"), Role.ASSISTANT, (TextPart(f"{EVIL} <b>bold</b>"),))),
    )
    recorded = [Recorded(n, n, 0, Actor.HUMAN, Origin.PERSON, "", event) for n, event in enumerate(said, 1)]
    shown = rendered(conversation_html(recorded, title=EVIL, about=[("Folder", EVIL)]), tmp_path)
    assert "<title>&lt;/title&gt;&lt;/style&gt;&lt;script&gt;" in shown
    assert "<title>run" not in shown
    assert "<img" not in shown
    assert "<script" not in shown
    assert '<details class="turn" open="">' in shown


def test_costs_are_drawn_by_day_and_model(tmp_path: Path):
    used = [
        UsedOnce(day * 86_400_000, SessionId("s"), TURN, "", model, Usage(10), 1_000_000, "", "/p", "")
        for day in (1, 2)
        for model in ("a/one", EVIL)
    ]
    shown = rendered(usage_page(used, "", ()).html, tmp_path)
    assert shown.count("<rect ") == 4
    assert "<title>run" not in shown
