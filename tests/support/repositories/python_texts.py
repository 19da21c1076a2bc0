"""Broken repositories in Python whose files are written in unusual ways: all bytes but the mended ones must stay.

Owns: the repositories `TEXTS`. Must not know: how they are mended.
"""

import codecs
import sys

from tests.support.repositories.base import Repository, edit, read

PYTHON = f'"{sys.executable}" -B'
"""The interpreter of the tests, so that no other Python has to be there."""

_HEAD = "import pathlib, sys\nhere = pathlib.Path(__file__).parent\n"

_PAGING = '''def page_count(items: int, size: int) -> int:
    """Pages needed for `items`."""
    return items // size
'''
_REPORT = "def total(rows):\r\n    result = 0\r\n    for row in rows:\r\n        result = row\r\n    return result\r\n"
_MESSAGES = "hello = Hallo\nbye = Auf Wiedersehen\nthanks = Merci\n"
_SETTINGS = "[server]\nname = Zürich\nport = 80800\n"
_LAST_LINE = "NAME = 'parser'\nVERSION = (1, 2)\nTEXT = '.'.join(VERSION)"
_MIXED = "one;1\r\ntwo;2\nthree;33\r\nfour;4\n"
_ROWS = [f"    ({number}, 'row {number}', {number * number}),\n" for number in range(8_000)]
_WRONG_ROWS = [*_ROWS[:6_543], "    (6543, 'row 6543', 0),\n", *_ROWS[6_544:]]


def _table(rows: list[str]) -> bytes:
    return f"ROWS = [\n{''.join(rows)}]\n".encode()


TEXTS = (
    Repository(
        "off by one",
        {
            "paging.py": _PAGING.encode(),
            "test_paging.py": b"from paging import page_count\nassert page_count(11, 5) == 3\n",
        },
        f"{PYTHON} test_paging.py",
        (read("paging.py"), edit("paging.py", ("items // size", "-(-items // size)"))),
        {"paging.py": _PAGING.replace("items // size", "-(-items // size)").encode()},
    ),
    Repository(
        "Windows line endings",
        {
            "report.py": _REPORT.encode(),
            "test_report.py": b"from report import total\nassert total([1, 2, 3]) == 6\n",
        },
        f"{PYTHON} test_report.py",
        (
            read("report.py"),
            edit(
                "report.py",
                ("    for row in rows:\n        result = row\n", "    for row in rows:\n        result += row\n"),
            ),
        ),
        {"report.py": _REPORT.replace("result = row", "result += row").encode()},
    ),
    Repository(
        "UTF-16",
        {
            "messages.txt": codecs.BOM_UTF16_LE + _MESSAGES.encode("utf-16-le"),
            "test_messages.py": (
                f"{_HEAD}text = (here / 'messages.txt').read_text(encoding='utf-16')\n"
                "assert 'thanks = Danke' in text, text\n"
            ).encode(),
        },
        f"{PYTHON} test_messages.py",
        (read("messages.txt"), edit("messages.txt", ("Merci", "Danke"))),
        {"messages.txt": codecs.BOM_UTF16_LE + _MESSAGES.replace("Merci", "Danke").encode("utf-16-le")},
    ),
    Repository(
        "byte order mark",
        {
            "settings.ini": codecs.BOM_UTF8 + _SETTINGS.encode(),
            "test_settings.py": (
                f"{_HEAD}data = (here / 'settings.ini').read_bytes()\nassert data[:3] == b'\\xef\\xbb\\xbf'\n"
                "assert int(data.decode('utf-8-sig').split('port = ')[1]) < 65536\n"
            ).encode(),
        },
        f"{PYTHON} test_settings.py",
        (read("settings.ini"), edit("settings.ini", ("port = 80800", "port = 8080"))),
        {"settings.ini": codecs.BOM_UTF8 + _SETTINGS.replace("80800", "8080").encode()},
    ),
    Repository(
        "no final newline",
        {
            "version.py": _LAST_LINE.encode(),
            "test_version.py": b"import version\nassert version.TEXT == '1.2'\n",
        },
        f"{PYTHON} test_version.py",
        (read("version.py"), edit("version.py", ("join(VERSION)", "join(map(str, VERSION))"))),
        {"version.py": _LAST_LINE.replace("join(VERSION)", "join(map(str, VERSION))").encode()},
    ),
    Repository(
        "mixed line endings",
        {
            "data.csv": _MIXED.encode(),
            "test_data.py": (
                f"{_HEAD}rows = (here / 'data.csv').read_text().split()\n"
                "assert [int(row.split(';')[1]) for row in rows] == [1, 2, 3, 4]\n"
            ).encode(),
        },
        f"{PYTHON} test_data.py",
        (read("data.csv"), edit("data.csv", ("three;33", "three;3"))),
        {"data.csv": _MIXED.replace("33", "3").encode()},
    ),
    Repository(
        "large file",
        {
            "table.py": _table(_WRONG_ROWS),
            "test_table.py": b"from table import ROWS\nassert all(row[0] ** 2 == row[2] for row in ROWS)\n",
        },
        f"{PYTHON} test_table.py",
        (edit("table.py", (_WRONG_ROWS[6_543], _ROWS[6_543])),),
        {"table.py": _table(_ROWS)},
    ),
)
"""What an edit must keep: line endings, encodings, marks, and a missing newline at the end."""
