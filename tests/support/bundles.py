"""A bundle on the disk."""

from pathlib import Path

MANIFEST = """name = "team"
version = "1.0"
description = "How the team works"

[[hooks]]
event = "UserPromptSubmit"
command = 'sh "$PATTERN_BUNDLE_DIR/tools/note.sh"'
"""

FILES = {
    "pattern-bundle.toml": MANIFEST,
    "skills/tag/SKILL.md": "---\nname: tag\ndescription: Tags\n---\nRun `touch tagged-by-team`.",
    "commands/ship.md": "Ship $1.",
    "personas/teamreview.md": "You are the team's reviewer.",
    "tools/note.sh": "echo NOTE-ONE\n",
    ".git/HEAD": "ref: refs/heads/main\n",
    ".git/refs/heads/main": f"{'a' * 40}\n",
}


def write_bundle(folder: Path, **changed: str) -> Path:
    """Write the bundle, with other text in the files that `changed` names by their stems."""
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(changed.get(path.stem.replace("-", "_"), text), encoding="utf-8")
    return folder
