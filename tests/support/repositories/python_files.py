"""Broken repositories in Python that need files made, moved, deleted or several changed at once.

Owns: the repositories `FILES`. Must not know: how they are mended.
"""

from tests.support.repositories.base import Repository, edit, patch, read, write
from tests.support.repositories.python_texts import PYTHON

_RATES = "RATES = {'de': 19, 'fr': 20}\n\n\ndef rate(country: str) -> int:\n    return RATES[country]\n"
_SLUGS = "def slug(text):\n\treturn text.lower().replace(' ', '_')\n"
_STACK = """class Stack:
    def __init__(self):
        self.items = []

    def add(self, item):
        self.items.append(item)
"""
_QUEUE = "from stack import Stack\n\n\nclass Queue(Stack):\n    def take(self):\n        return self.items.pop()\n"
_USE = """from queues import Queue

queue = Queue()
for item in "ab":
    queue.push(item)
assert queue.take() == "a"
"""
_CAFE = "größe = 0.5\nassert größe == 1.0, 'ein Café ist größer'\n"

FILES = (
    Repository(
        "a rename",
        {
            "src/app/utlis.py": b"def double(x):\n    return x + 2\n",
            "src/app/__init__.py": b"",
            "tests/check.py": (
                b"import sys, pathlib\nsys.path.insert(0, str(pathlib.Path(__file__).parents[1] / 'src'))\n"
                b"from app.utils import double\nassert double(4) == 8\n"
            ),
        },
        f"{PYTHON} tests/check.py",
        (
            read("src/app/utlis.py"),
            patch(
                "*** Update File: src/app/utlis.py",
                "*** Move to: src/app/utils.py",
                "@@ def double(x):",
                "-    return x + 2",
                "+    return x * 2",
            ),
        ),
        {"src/app/utlis.py": None, "src/app/utils.py": b"def double(x):\n    return x * 2\n"},
    ),
    Repository(
        "a new file in new folders",
        {"check.py": b"from shop.tax.rates import rate\nassert rate('de') == 19\n"},
        f"{PYTHON} check.py",
        (write("shop/tax/rates.py", _RATES),),
        {"shop/tax/rates.py": _RATES.encode()},
    ),
    Repository(
        "a patch of several files",
        {
            "stack.py": _STACK.encode(),
            "queues.py": _QUEUE.encode(),
            "check.py": _USE.encode(),
            "README": b"A stack and a queue.\n",
        },
        f"{PYTHON} check.py",
        (
            patch(
                "*** Update File: stack.py",
                "@@ class Stack:",
                "-    def add(self, item):",
                "+    def push(self, item):",
                "*** Update File: queues.py",
                "@@",
                "     def take(self):",
                "-        return self.items.pop()",
                "+        return self.items.pop(0)",
                "*** Delete File: README",
                "*** Add File: README.md",
                "+# A stack and a queue",
            ),
        ),
        {
            "stack.py": _STACK.replace("def add", "def push").encode(),
            "queues.py": _QUEUE.replace("pop()", "pop(0)").encode(),
            "README": None,
            "README.md": b"# A stack and a queue\n",
        },
    ),
    Repository(
        "names that are not ASCII",
        {
            "über uns/naïve café.py": _CAFE.encode(),
            "über uns/日本/メモ.txt": "残す\n".encode(),
        },
        f'{PYTHON} "über uns/naïve café.py"',
        (read("über uns/naïve café.py"), edit("über uns/naïve café.py", ("größe = 0.5", "größe = 1.0"))),
        {"über uns/naïve café.py": _CAFE.replace("0.5", "1.0").encode()},
    ),
    Repository(
        "a file that shadows a module",
        {
            # A module that nothing imports before a program begins, not even what measures coverage.
            "colorsys.py": b"print('left over')\n",
            "check.py": b"import colorsys\nassert colorsys.rgb_to_hsv(1, 1, 1)[2] == 1\n",
        },
        f"{PYTHON} check.py",
        (patch("*** Delete File: colorsys.py"),),
        {"colorsys.py": None},
    ),
    Repository(
        "tabs, and a whole file written anew",
        {
            "slugs.py": _SLUGS.encode(),
            "words.txt": b"alpha\nbeta\n",
            "check.py": (
                b"from slugs import slug\nassert slug('A b c') == 'a-b-c'\n"
                b"assert open('words.txt').read().split() == ['alpha', 'beta', 'gamma']\n"
            ),
        },
        f"{PYTHON} check.py",
        (
            read("slugs.py"),
            edit("slugs.py", ("\treturn text.lower().replace(' ', '_')", "\treturn '-'.join(text.lower().split())")),
            read("words.txt"),
            write("words.txt", "alpha\nbeta\ngamma\n"),
        ),
        {
            "slugs.py": b"def slug(text):\n\treturn '-'.join(text.lower().split())\n",
            "words.txt": b"alpha\nbeta\ngamma\n",
        },
    ),
)
"""What patches and new files do to a project's tree."""
