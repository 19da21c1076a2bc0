"""How far our estimate of tokens is from real tokenizers, before and after it has learned from counts.

    cd benchmarks/token_estimate && npm install && python measure.py [FOLDER ...]

Needs Node. Takes texts of this repository, and files of other languages from the folders that are given (sources by
their suffix, and Vim's tutor, whose translations are the prose of other scripts, where it is installed).
"""

import json
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import cast

from pattern_acp.context.window import Calibration, text_weight, weight_per_token

HERE = Path(__file__).parent
ROOT = HERE.parents[1]

PIECE = 3_000
"""Characters of a text, about a screen or two of a file."""

MOST = 40
"""Pieces of a kind."""

MODELS = {
    "claude": "claude-sonnet-5",
    "o200k": "gpt-5",
    "cl100k": "gpt-4",
    "gemini": "gemini-3",
    "qwen3": "qwen3",
    "deepseek": "deepseek-chat",
}

COMMANDS = ("ls -lR pattern_acp", "git log --stat -60", "grep -rn 'async def' pattern_acp", "ps aux")

SUFFIXES = {"C": ".h", "Rust": ".rs", "Go": ".go", "TypeScript": ".ts", "shell": ".sh", "JSON": ".json"}

TUTORS = {"Chinese": "zh_cn", "Japanese": "ja", "Korean": "ko", "Russian": "ru", "German": "de"}


def texts(kind: str, files: Iterable[Path]) -> list[tuple[str, str]]:
    return pieces(kind, [file.read_text(encoding="utf-8", errors="replace") for file in sorted(files)[:200]])


def pieces(kind: str, whole: Sequence[str]) -> list[tuple[str, str]]:
    # The tokenizers take what looks like their own marks for them.
    cut = [
        text[start : start + PIECE].replace("<|", "< |")
        for text in whole
        for start in range(0, len(text) - PIECE // 2, PIECE)
    ]
    random.Random(1).shuffle(cut)
    return [(kind, piece) for piece in cut[:MOST]]


def output(command: str) -> str:
    return subprocess.run(command, shell=True, capture_output=True, text=True, cwd=ROOT, check=False).stdout[:200_000]


def corpus(folders: Sequence[Path]) -> list[tuple[str, str]]:
    found = texts("English", ROOT.glob("docs/**/*.md")) + texts("Python", ROOT.glob("pattern_acp/session/*.py"))
    for kind, suffix in SUFFIXES.items():
        found += texts(kind, [file for folder in (ROOT, *folders) for file in folder.rglob(f"*{suffix}")])
    found += pieces("output", [output(command) for command in COMMANDS]) + pieces("diffs", [output("git log -p -12")])
    for kind, name in TUTORS.items():
        found += texts(kind, Path("/usr/share/vim").glob(f"*/tutor/tutor.{name}.utf-8"))
    return found


def count(items: Sequence[tuple[str, str]]) -> dict[str, list[int]]:
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
        json.dump([text for _, text in items], file)
        file.flush()
        ran = subprocess.run(("node", "counts.mjs", file.name), cwd=HERE, capture_output=True, check=True)
    return cast("dict[str, list[int]]", json.loads(ran.stdout))


def estimate(model: str, text: str) -> int:
    return round(text_weight(text) / weight_per_token(model))


def errors_before(model: str, said: Sequence[tuple[str, int]]) -> list[float]:
    return [estimate(model, text) / real - 1 for text, real in said]


def errors_after(model: str, said: Sequence[tuple[str, int]]) -> list[float]:
    """Of a conversation that grows by one text a request, from the second request on."""
    learned, ours, real, errors = Calibration(), 0, 0, list[float]()
    for text, tokens in said:
        ours, real = ours + estimate(model, text), real + tokens
        if real > tokens:
            errors.append(learned.tokens(model, ours) / real - 1)
        learned.learn(model, ours, real)
    return errors


def cell(errors: Sequence[float]) -> str:
    worst = sorted(abs(error) for error in errors)[int(0.95 * len(errors))]
    return f"{statistics.mean(errors):+.0%} / {worst:.0%}"


def table(items: Sequence[tuple[str, str]], counts: dict[str, list[int]], measure: Callable[..., list[float]]) -> None:
    print(f"| text | pieces | {' | '.join(MODELS)} |\n|---|---|{'---|' * len(MODELS)}")
    for kind in dict.fromkeys(kind for kind, _ in items):
        places = [place for place, (of, _) in enumerate(items) if of == kind]
        cells = [
            cell(measure(model, [(items[place][1], counts[name][place]) for place in places]))
            for name, model in MODELS.items()
        ]
        print(f"| {kind} | {len(places)} | {' | '.join(cells)} |")


def main() -> None:
    items = corpus([Path(folder) for folder in sys.argv[1:]])
    counts = count(items)
    print("Mean error of one text / of 95 % of them at most:\n")
    table(items, counts, errors_before)
    print("\nThe same of the next request, once the requests before were counted:\n")
    table(items, counts, errors_after)


if __name__ == "__main__":
    main()
