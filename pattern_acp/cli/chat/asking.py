"""Asking the user.

Owns: how a question looks, and turning keys, lines and flags into answers. Must not know: the connection; a question is
answered through events.py.
"""

from typing import Literal, Protocol

from rich.console import RenderableType
from rich.text import Text

from pattern_acp.acp import schema
from pattern_acp.cli.chat.answers import rendered
from pattern_acp.cli.chat.calls import (
    DIFF_MARGIN,
    DisplayedCall,
    diff_rows,
    diff_text,
    has_table,
    one_line,
    output_lines,
    plain_text,
)
from pattern_acp.cli.chat.events import KEYS, OfferedChoice, Question, automatic_choice, choice_for, keyed
from pattern_acp.cli.chat.screen import Hanging, Indented, Marks, Screen
from pattern_acp.cli.output import printable
from pattern_acp.domain.text_limits import plural
from pattern_acp.domain.tool_calls import ToolKind

ROWS = 30
"""Rows of one change or text in a question before the key `v` is offered."""

VIEW = "v"

WORDS = "w"
"""The key of a refusal with the user's own words."""


class Keys(Protocol):
    """The source of answers: single keys, or lines."""

    def forget(self) -> None:
        """Forget what was typed so far: it cannot be meant for a question that was not seen yet."""
        ...

    def read(self, question: Question, hint: str) -> str:
        """The next key, as one character; "" when the question is no longer open or nobody can answer any more.

        Raises:
            KeyboardInterrupt: the user cancels.
        """
        ...

    def read_line(self, question: Question) -> str | None:
        """The next line, stripped; None when the question is no longer open or nobody can answer any more.

        Raises:
            KeyboardInterrupt: the user cancels.
        """
        ...


WORDS_HINT = "Your answer and Enter"
TEXT_HINT = "Change the text and press Enter; an empty text refuses"
CHOICE_HINT = "A number or your own words, and Enter"


class Asker:
    """Answers questions: by a flag, by the user, or by refusing where nobody can be asked."""

    def __init__(
        self, screen: Screen, marks: Marks, answer: Literal["ask", "allow", "deny"], keys: Keys | None
    ) -> None:
        self._screen = screen
        self._marks = marks
        self._answer: Literal["ask", "allow", "deny"] = answer
        self._keys = keys
        self.has_refused = False
        """True after a refusal that the user was not asked about."""

    @property
    def asks(self) -> bool:
        """True when questions go to the user."""
        return self._answer == "ask" and self._keys is not None

    def ask(self, question: Question, cwd: str) -> None:
        """Get an answer and give it.

        Raises:
            KeyboardInterrupt: the user cancels; the question was answered with that.
        """
        try:
            if question.takes_words and not self.asks:
                if question.is_closed and self._answer != "allow":
                    self._say_refused(question)
                # Where no permission is at stake, the agent decides without an answer what is safest.
                first = question.choices[0].option_id if self._answer == "allow" and question.choices else ""
                question.reply(first)
            elif self._answer != "ask":
                self.has_refused |= self._answer == "deny"
                reply_by_flag(question, self._answer)
            elif self._keys is None:
                self._refuse(question)
            elif question.takes_words:
                self._ask_words(question, self._keys, cwd)
            else:
                self._ask_person(question, self._keys, cwd)
        finally:
            question.reply(None)

    def _refuse(self, question: Question) -> None:
        self._say_refused(question)
        reply_by_flag(question, "deny")

    def _say_refused(self, question: Question) -> None:
        self.has_refused = True
        if self._answer == "deny":
            return
        title = one_line(question.call.title or "a tool call")
        end = "" if title.endswith(("?", ".")) else "."
        sentence = f"Refused, since nobody can be asked here: {title}{end} Pass --yes to allow what the agent asks for."
        self._screen.print(Text(sentence, style="yellow"))

    def _ask_words(self, question: Question, keys: Keys, cwd: str) -> None:
        offered = {str(number): choice for number, choice in enumerate(question.choices, 1)}
        keys.forget()
        self._screen.print(*question_parts(question.call, cwd, self._marks, rows=None))
        if offered:
            self._screen.print(options_text(offered, cut=False))
        hint = TEXT_HINT if question.text else f"{CHOICE_HINT if offered else WORDS_HINT}; Enter alone: no answer"
        self._screen.print(Text(f"  {hint}", style="dim"))
        words = keys.read_line(question)
        if words is not None:
            question.reply(offered[words].option_id if words in offered else words)

    def _ask_person(self, question: Question, keys: Keys, cwd: str) -> None:
        offered = keyed(question.choices)
        keys.forget()
        self._screen.print(*question_parts(question.call, cwd, self._marks, rows=ROWS))
        cut = is_cut(question.call, ROWS)
        refusal = None if _asks_for_reason(question) else offered.get(KEYS["reject_once"])
        self._screen.print(options_text(offered, cut=cut, words=refusal is not None))
        hint = "/".join([*offered, *([WORDS] if refusal is not None else []), *([VIEW] if cut else [])])
        while key := keys.read(question, hint):
            if key == VIEW and cut:
                self._screen.print(*question_parts(question.call, cwd, self._marks, rows=None))
                self._screen.print(options_text(offered, cut=False, words=refusal is not None))
                continue
            if key == WORDS and refusal is not None:
                if self._refuse_with_words(question, refusal, keys):
                    return
                continue
            choice = choice_for(key, offered)
            if choice is not None:
                style = "green" if choice.kind.startswith("allow") else "red"
                self._screen.print(Text(f"  {self._marks.current} {one_line(choice.name)}", style=style))
                question.reply(choice.option_id)
                return

    def _refuse_with_words(self, question: Question, refusal: OfferedChoice, keys: Keys) -> bool:
        """Refuse with a line of the user's; False when they wrote none, and the question stays open."""
        self._screen.print(
            Text("  What should the agent do instead? Enter alone goes back to the question", style="dim")
        )
        words = keys.read_line(question)
        if not words:
            return words is None
        question.beside.append(words)
        question.reply(refusal.option_id)
        return True


def _asks_for_reason(question: Question) -> bool:
    """Tell whether the agent offers a refusal with words itself."""
    return any(choice.kind == "reject_once" and choice.option_id != choice.kind for choice in question.choices)


def reply_by_flag(question: Question, answer: Literal["allow", "deny"]) -> None:
    """Answer as a flag says; what cannot be allowed is refused, and what cannot be refused is cancelled."""
    choice = automatic_choice(answer, question.choices) or automatic_choice("deny", question.choices)
    question.reply(choice.option_id if choice is not None else None)


def question_parts(call: schema.ToolCallUpdate, cwd: str, marks: Marks, *, rows: int | None) -> list[RenderableType]:
    """Title, changes and texts of a call, at most `rows` of each. Nothing of what is approved is cut in its width."""
    kind = marks.kind(call.kind)
    title = Text.assemble(
        (f"{marks.question} ", "bold yellow"),
        (f"{kind} " if kind else "", "cyan"),
        (one_line(call.title or ""), "bold"),
    )
    parts: list[RenderableType] = [title]
    for item in call.content or ():
        match item:
            case schema.Diff():
                limit = len(item.new_text) + len(item.old_text or "") + 1 if rows is None else rows
                parts.append(Indented(Hanging(diff_text(item, cwd, marks, limit=limit, whole_lines=True), DIFF_MARGIN)))
                continue
            case schema.Content(content=schema.TextContent(text=text)) if has_table(text, call.kind):
                parts.append(Indented(rendered(printable(text))))
                continue
            case schema.Content(content=schema.TextContent(text=text)):
                body = _text_rows(text, call.kind, rows, marks)
                if one_line(body.plain) == one_line(call.title or ""):
                    continue
            case _:
                continue
        parts.append(Indented(body))
    return parts


def options_text(offered: dict[str, OfferedChoice], *, cut: bool, words: bool = False) -> Text:
    """The answers with their keys, a line each; `words` where a refusal may say what to do instead."""
    lines = [(key, one_line(choice.name)) for key, choice in offered.items()]
    if words:
        lines.append((WORDS, "Reject, and say what to do instead"))
    if cut:
        lines.append((VIEW, "View all of it"))
    return Text("\n").join(Text.assemble((f"  [{key}]", "bold"), f" {name}", overflow="fold") for key, name in lines)


def is_cut(call: schema.ToolCallUpdate, rows: int) -> bool:
    """Tell whether `rows` rows are too few to show all of a call."""
    for item in call.content or ():
        match item:
            case schema.Diff(new_text=new, old_text=old):
                if len(diff_rows(old or "", new)) > rows:
                    return True
            case schema.Content(content=schema.TextContent(text=text)) if not has_table(text, call.kind):
                if len(output_lines(plain_text(text, call.kind))) > rows:
                    return True
            case _:
                pass
    return False


def shows_at_length(call: schema.ToolCallUpdate) -> bool:
    """Tell whether the question shows changes or tables, which are not repeated when the call has ended."""
    shown = DisplayedCall(call.tool_call_id).updated(call)
    texts = [
        item.content.text
        for item in shown.content
        if isinstance(item, schema.Content) and isinstance(item.content, schema.TextContent)
    ]
    return bool(shown.diffs) or any(has_table(text, shown.kind) for text in texts)


def _text_rows(text: str, kind: ToolKind | None, rows: int | None, marks: Marks) -> Text:
    lines = output_lines(plain_text(text, kind))
    shown = lines if rows is None else lines[:rows]
    body = Text("\n".join(shown), overflow="fold")
    if len(shown) < len(lines):
        body.append(f"\n{marks.dots} {plural(len(lines) - len(shown), 'more line')}", style="dim italic")
    return body
