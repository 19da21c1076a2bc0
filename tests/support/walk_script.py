"""What the model of a random walk does: turns of the scripted provider, chosen by a seed.

Owns: the turns. Must not know: the walk's own steps.
"""

from random import Random

from tests.support.editor import JsonDict
from tests.support.walk_texts import odd_text, word

LABELS = ("human", "persona", "project", "notes", "w1", "w2")
"""Labels of memory blocks: some are there from the start, some are made by a walk, some never."""


def script_turns(random: Random, count: int = 80) -> list[list[JsonDict]]:
    """Turns to be repeated; about half of them call tools."""
    return [_turn(random) for _ in range(count)]


def _turn(random: Random) -> list[JsonDict]:
    steps: list[JsonDict] = []
    if random.random() < 0.2:
        steps.append({"thinking": _sayable(random), "signature": "s"})
    for _ in range(random.randrange(3)):
        steps += [{"text": _sayable(random)}, {"wait_ms": random.choice((0, 5, 40))}]
    if random.random() < 0.45:
        steps += [_call(random) for _ in range(random.choice((1, 1, 2, 3)))]
    steps.append({"usage": {"input_tokens": random.randrange(5000), "output_tokens": random.randrange(500)}})
    chance = random.random()
    if chance < 0.06:
        steps.append({"error": random.choice(("request", "protocol", "empty", "auth", "context"))})
    elif chance < 0.1:
        steps.append({"stop": random.choice(("max_tokens", "refusal", "end"))})
    elif chance < 0.2:
        steps.append({"wait_ms": random.choice((200, 1500))})
    return steps


def _sayable(random: Random) -> str:
    """A script is a file in UTF-8, which has no lone surrogates."""
    return (odd_text(random)[:3000] or "x").encode("utf-8", "replace").decode()


def _call(random: Random) -> JsonDict:
    file = random.choice(("a.txt", "new.txt", "sub/b.txt", "code.py", "missing.txt"))
    text = _sayable(random)
    label = random.choice(LABELS)
    arguments: tuple[tuple[str, JsonDict], ...] = (
        ("read_file", {"path": file}),
        ("write_file", {"path": file, "content": text}),
        ("edit_file", {"path": file, "edits": [{"old_text": "one", "new_text": text}]}),
        ("list_directory", {"path": "."}),
        ("find_files", {"pattern": "**/*"}),
        ("search_text", {"pattern": random.choice(("one", "(", "."))}),
        (
            "run_command",
            {
                "command": random.choice(
                    ("echo hi > made.txt", "rm -f a.txt", "sleep 0.3", "printf 'a\\0b\\xff'", "false")
                )
            },
        ),
        ("run_command", {"command": "sleep 1", "background": True}),
        ("job", {"action": "list"}),
        ("update_plan", {"entries": [{"content": text, "priority": "high", "status": "pending"}]}),
        ("memory_write", {"label": label, "operation": "append", "text": text}),
        ("memory_write", {"label": label, "operation": "replace", "old_text": text, "text": "new"}),
        ("memory_write", {"label": "archival", "operation": "add", "text": text}),
        ("memory_read", {"label": label}),
        ("memory_search", {"query": text}),
        ("session_search", {"query": text}),
        ("code_map", {"query": word(random, "f", "callers of g").encode("utf-8", "replace").decode()[:500]}),
        ("delegate", {"task": text, "kind": "explorer"}),
        ("nosuch", {"x": 1}),
    )
    tool, given = random.choice(arguments)
    return {"tool": tool, "arguments": given}
