"""Without an extra its feature says in one sentence what is missing and how it is installed."""

import base64
import subprocess
import sys
from pathlib import Path

from pattern_acp.config.load import process_environment
from tests.support.pdfs import pdf

ROOT = Path(__file__).parents[2]
PACKAGES = (
    "PIL",
    "pypdf",
    "tree_sitter_cpp",
    "tree_sitter_c_sharp",
    "tree_sitter_php",
    "tree_sitter_ruby",
    "nats",
    "blake3",
)
WITHOUT = f"import sys; sys.modules.update(dict.fromkeys({PACKAGES!r}))\n"


def said(script: str, home: Path) -> str:
    environment = {**process_environment(), "PATTERN_ACP_HOME": str(home), "PYTHONUTF8": "1", "COLUMNS": "200"}
    command = [sys.executable, "-c", WITHOUT + script]
    done = subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, encoding="utf-8", timeout=100, check=False
    )
    return done.stdout + done.stderr


def test_doctor_names_the_parts_that_are_not_installed(tmp_path: Path):
    shown = said("from pattern_acp.cli.main import run; run(['doctor'])", tmp_path)
    assert "scaling of large images; reading PDF files; the code map of cpp, csharp, php, ruby." in " ".join(
        shown.split()
    )
    assert 'pip install "pattern-acp[images,pdf,languages]"' in " ".join(shown.split())


def test_reading_a_pdf_says_what_to_install(tmp_path: Path):
    (tmp_path / "a.pdf").write_bytes(pdf("Hello"))
    script = (
        "import anyio\nfrom pattern_acp.workspace.pdfs import read_pdf\n"
        f"anyio.run(read_pdf, {str(tmp_path / 'a.pdf')!r}, 1, 1)"
    )
    assert 'is not installed; run: pip install "pattern-acp[pdf]".' in said(script, tmp_path)


def test_a_small_image_is_sent_as_it_is_and_a_preview_says_what_to_install(tmp_path: Path):
    image = "R0lGODdhCAAGAIAAAP8AAAAAACwAAAAACAAGAAACBoSPqcvtXQA7"  # 8 by 6 pixels, all red
    assert base64.b64decode(image)[:6] == b"GIF87a"
    script = (
        "import anyio\nfrom pattern_acp.workspace.images import image_of_base64, preview_of\n"
        f"part = anyio.run(image_of_base64, {image!r}, 'a.gif')\nprint(part.width, part.height)\n"
        "anyio.run(preview_of, part)"
    )
    shown = said(script, tmp_path)
    assert shown.startswith("8 6\n")
    assert 'The image a.gif is too large to be shown; run: pip install "pattern-acp[images]" for a preview.' in shown


def test_a_server_of_sync_says_what_to_install(tmp_path: Path):
    script = (
        "from pattern_acp.bootstrap.syncing import carrier_of\nfrom pattern_acp.sync.segments import SyncError\n"
        "try:\n    carrier_of('nats://127.0.0.1:4222')\nexcept SyncError as error:\n    print(error.sentence)"
    )
    assert 'run: pip install "pattern-acp[sync]".' in said(script, tmp_path)


def test_a_file_of_pattern_says_what_to_install(tmp_path: Path):
    script = (
        "import io\nfrom pattern_acp.carry.car import BLAKE3_CID, ArchiveWriter\n"
        "from pattern_acp.domain.errors import PatternError\n"
        "try:\n    ArchiveWriter(io.BytesIO(), BLAKE3_CID).finish({})\n"
        "except PatternError as error:\n    print(error.sentence)"
    )
    assert 'run: pip install "pattern-acp[pattern]".' in said(script, tmp_path)
