"""Pages of HTML for what is easier to look at in a browser: conversations, the past of a block, costs.

Owns: the frame of every page, and what the pages of a block and of costs show. Must not know: where a page is written.
A page is one file that needs nothing else: no script, no server, no network, which its own policy forbids too. Jinja
(ADR 40) escapes every value that a template shows; only what `conversation_html` has escaped is passed as markup.
"""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from pattern_acp.commands.document import HtmlPage
from pattern_acp.commands.memory_results import BlamedRow, WriteRow
from pattern_acp.commands.usage import COUNTS, UsageSum, sum_up, total_of
from pattern_acp.domain.clock import day_of
from pattern_acp.domain.text_limits import plural, with_visible_controls
from pattern_acp.domain.usage import MICRO, amount_text
from pattern_acp.journal.usage import UsedOnce

if TYPE_CHECKING:
    from jinja2 import Environment

SERIES = ("#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#ff8ab7", "#a463f2", "#97bbf5", "#9c6b4e", "#9498a0")
"""Colours of models in a chart; those beyond the last share it."""

MOST_DAYS = 60
"""Days of a chart, the newest."""

TURN_OF_HUES = 137.5
"""Degrees between the hues of two writes: neighbours are far apart, and no two of the first dozens alike."""


def page_html(template: str, title: str, about: Sequence[tuple[str, str]], **values: object) -> str:
    """A page by one of our templates; `about` are names and values for its head."""
    text = _environment().get_template(template).render(title=title, about=about, **values)
    return with_visible_controls(text.encode("utf-8", "replace").decode("utf-8"))


@cache
def _environment() -> "Environment":
    # Late: only pages need it, and it takes 60 ms to import.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    folder = Path(__file__).with_name("templates")
    return Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


class WriteView(Struct, frozen=True):
    """A write as a page shows it: the lines of its difference with their kinds, and its size in words."""

    row: WriteRow
    diff: tuple[tuple[str, str], ...]
    change: str

    @property
    def colour(self) -> str:
        """The colour of the write, by its number."""
        return hue_of(self.row.number)


class LineView(Struct, frozen=True):
    """A line of the block with the write that it came from."""

    text: str
    write: WriteRow

    @property
    def colour(self) -> str:
        """The colour of the write."""
        return hue_of(self.write.number)


def hue_of(number: int) -> str:
    """The colour of a write."""
    return f"hsl({round(number * TURN_OF_HUES) % 360} 60% 50%)"


def block_page(
    label: str, rows: Sequence[WriteRow], diffs: dict[int, str | None], lines: Sequence[BlamedRow]
) -> HtmlPage:
    """The past of a block: who wrote each line, and every write with what it changed.

    `diffs` has the difference of each write in the unified format; None where words of it were forgotten.
    """
    views = [WriteView(row, _marked(diffs.get(row.number)), _change(row, diffs.get(row.number))) for row in rows]
    older = rows[-1].number - 1 if rows else 0
    about = (("Writes", f"{rows[0].number if rows else 0:,}"), ("Lines", f"{len(lines):,}"))
    html = page_html(
        "block.html",
        f"Memory: {label}",
        about,
        lines=[LineView(line.text, line.write) for line in lines],
        writes=views,
        older=older,
    )
    return HtmlPage(html, f"memory-{_file_name(label)}.html")


def _file_name(label: str) -> str:
    return "".join(each if each.isalnum() or each in "-_." else "-" for each in label)


def _marked(diff: str | None) -> tuple[tuple[str, str], ...]:
    kinds = {"+": "add", "-": "del", "@": "at"}
    # The first two lines name the versions, which stand above.
    return tuple((kinds.get(line[:1], ""), line) for line in (diff or "").split("\n")[2:])


def _change(row: WriteRow, diff: str | None) -> str:
    if diff is None:
        return "Words of it were forgotten, so what it changed cannot be shown."
    if not diff:
        return "It changed no line."
    if row.lines_added is None or row.lines_removed is None:
        return "What it changed"
    return f"{plural(row.lines_added, 'line')} added, {row.lines_removed:,} removed"


class Bar(Struct, frozen=True):
    """A part of a day's bar: what one model cost."""

    x: float
    y: float
    width: float
    height: float
    colour: str
    title: str


class Chart(Struct, frozen=True):
    """Bars by day, each of its models, in units of the picture."""

    unit: str
    bars: tuple[Bar, ...]
    scale: tuple[tuple[float, str], ...]
    days: tuple[tuple[float, str], ...]
    legend: tuple[tuple[str, str], ...]
    width: int = 860
    height: int = 300
    left: int = 84


def usage_page(used: Sequence[UsedOnce], since: str, notes: Sequence[str]) -> HtmlPage:
    """Costs, or tokens where nothing has a price: a chart by day and model, and the sums below it."""
    total = total_of(used)
    days, models = sum_up(used, "day"), sum_up(used, "model")
    about = [("Requests", f"{total.requests:,}"), ("Cost", total.money or "unknown")]
    about += [("Since", since)] if since else []
    html = page_html(
        "usage.html",
        "What the models cost",
        about,
        chart=chart_of(used, models),
        counts=[column.title for column in COUNTS],
        days=days[::-1],
        models=[*models, total],
        notes=[note for note in (*notes, total.estimate_note) if note],
        nothing="No model was asked yet.",
    )
    return HtmlPage(html, "usage.html")


def chart_of(used: Sequence[UsedOnce], models: Sequence[UsageSum]) -> Chart:
    """The bars of each day, the most expensive model lowest."""
    is_money = any(one.micro_units for one in used)
    names = [one.key for one in models]
    sizes: dict[str, dict[str, int]] = {}
    for one in used:
        of_day = sizes.setdefault(day_of(one.at_ms), {})
        size = (one.micro_units or 0) if is_money else one.usage.context_tokens
        name = one.model or "unknown"
        of_day[name] = of_day.get(name, 0) + size
    days = sorted(sizes)[-MOST_DAYS:]
    most = max((sum(sizes[day].values()) for day in days), default=0) or 1
    frame = Chart("Cost" if is_money else "Tokens", (), (), (), ())
    top, bottom = 12.0, frame.height - 28.0
    step = (frame.width - frame.left - 8) / max(len(days), 1)
    bars: list[Bar] = []
    for index, day in enumerate(days):
        y = bottom
        for name in names:
            if size := sizes[day].get(name, 0):
                height = size / most * (bottom - top)
                y -= height
                width = min(step * 0.8, 60)
                x = frame.left + index * step + (step - width) / 2
                title = f"{day}, {name}: {_size(size, is_money=is_money)}"
                bars.append(
                    Bar(round(x, 1), round(y, 1), round(width, 1), round(height, 1), _series(names, name), title)
                )
    every = max(1, -(-len(days) // 12))
    labels = [(round(frame.left + (at + 0.5) * step, 1), day[5:]) for at, day in enumerate(days) if at % every == 0]
    scale = [
        (round(bottom - part * (bottom - top), 1), _size(round(most * part), is_money=is_money)) for part in (0, 0.5, 1)
    ]
    legend = tuple((name, _series(names, name)) for name in names)
    return Chart(frame.unit, tuple(bars), tuple(scale), tuple(labels), legend)


def _series(names: Sequence[str], name: str) -> str:
    return SERIES[min(names.index(name), len(SERIES) - 1)]


def _size(size: int, *, is_money: bool) -> str:
    if not is_money:
        return f"{size:,} tokens" if size < MICRO else f"{size / MICRO:.1f} M tokens"
    return amount_text(size)
