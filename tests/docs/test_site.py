"""The site builds, has a search, and a dead link fails its build."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pattern_acp.config.load import process_environment

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow


def built(project: Path, site: Path) -> subprocess.CompletedProcess[str]:
    # A released theme recommends its successor at every build.
    environment = {**process_environment(), "PYTHONUTF8": "1", "NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(site)]
    return subprocess.run(
        command,
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=110,
        check=False,
    )


def test_the_site_builds_with_search_and_without_a_dead_link(tmp_path: Path):
    done = built(ROOT, tmp_path / "site")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "site" / "how-to" / "memory" / "index.html").is_file()
    assert "constellation" in (tmp_path / "site" / "search" / "search_index.json").read_text(encoding="utf-8")
    page = (tmp_path / "site" / "reference" / "permissions" / "index.html").read_text(encoding="utf-8")
    assert "/blob/main/README.md#modes" in page, "a link out of docs/ leads to the repository"


def test_a_dead_link_fails_the_build(tmp_path: Path):
    for name in ("mkdocs.yml", "scripts/site_links.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "README.md").write_text("# Here\n\n[there](gone.md) [place](#nowhere)\n", encoding="utf-8")
    done = built(tmp_path, tmp_path / "site")
    assert done.returncode != 0
    assert "gone.md" in done.stderr
    assert "#nowhere" in done.stderr
