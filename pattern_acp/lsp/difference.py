"""Which errors an edit introduced.

Owns: telling old errors from new ones though lines moved. Must not know: servers.
"""

from collections import Counter
from collections.abc import Sequence

from pattern_acp.lsp.model import Diagnostic, NewError
from pattern_acp.lsp.positions import column_of, split_lines


def introduced(
    path: str, before: Sequence[Diagnostic], text_before: str, after: Sequence[Diagnostic], text_after: str
) -> list[NewError]:
    """The errors of `after` that `before` does not account for, in the order of the text.

    An old error accounts for one new one of the same words: first for one on a line that reads the same, wherever that
    is now, then for any other.
    """
    old_lines, new_lines = split_lines(text_before), split_lines(text_after)
    known = [(_key(each), _line(old_lines, each)) for each in before if each.is_error]
    on_line = Counter(known)
    unplaced: list[Diagnostic] = []
    for each in after:
        if not each.is_error:
            continue
        place = (_key(each), _line(new_lines, each))
        if on_line[place] > 0:
            on_line[place] -= 1
        else:
            unplaced.append(each)
    by_words = Counter[tuple[str, str, str]]()
    for (key, _), count in on_line.items():
        by_words[key] += count
    fresh: list[NewError] = []
    for each in unplaced:
        if by_words[_key(each)] > 0:
            by_words[_key(each)] -= 1
            continue
        line = each.span.line
        column = column_of(new_lines[line], each.span.unit) if line < len(new_lines) else 0
        fresh.append(NewError(path, line + 1, column + 1, each.message, each.code, each.source))
    return sorted(fresh, key=lambda error: (error.line, error.column))


def _key(diagnostic: Diagnostic) -> tuple[str, str, str]:
    return (diagnostic.source, diagnostic.code, diagnostic.message)


def _line(lines: Sequence[str], diagnostic: Diagnostic) -> str:
    return lines[diagnostic.span.line].strip() if diagnostic.span.line < len(lines) else ""
