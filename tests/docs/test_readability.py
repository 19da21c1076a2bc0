"""README, tutorial and how-to guides are short sentences in plain words."""

import subprocess
import sys
from pathlib import Path

from pattern_acp.config.load import process_environment

ROOT = Path(__file__).parents[2]


def checked(*files: Path) -> subprocess.CompletedProcess[str]:
    environment = {**process_environment(), "PYTHONUTF8": "1"}
    command = [sys.executable, str(ROOT / "scripts" / "readability"), *map(str, files)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, encoding="utf-8", check=False)


def test_no_page_for_users_has_a_long_sentence_or_a_word_that_is_off_the_list():
    done = checked()
    assert done.stdout == ""
    assert done.returncode == 0, done.stderr


def test_each_long_sentence_and_word_is_named_with_its_line(tmp_path: Path):
    page = tmp_path / "page.md"
    long = " ".join(["Word", *["word"] * 30])
    page.write_text(
        f"# Title\n\nShort. {long}. Short.\n\n| a |\n| --- |\n| the person |\n\n- `the person` in code\n",
        encoding="utf-8",
    )
    done = checked(page)
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        f"{page}:3: 31 words: Word word word word word word word word …",
        f"{page}:7: “the person”; say: user",
    ]


def test_a_page_of_thirty_words_a_sentence_is_in_order(tmp_path: Path):
    page = tmp_path / "page.md"
    sentence = " ".join(["Word", *["word"] * 29])
    page.write_text(f"{sentence}. {sentence}! `{sentence} {sentence}`\n", encoding="utf-8")
    assert checked(page).returncode == 0
