"""What a person sees of a session: the messages, the calls and the plan that a client builds from updates.

Owns: building it as clients do, and what a client cannot show. Must not know: our own wire structs.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from tests.support.editor_files import JsonDict
from tests.support.turn_judge import FINAL
from tests.support.wire import WireFaultError

WRITERS = {"user_message_chunk": "person", "agent_message_chunk": "agent", "agent_thought_chunk": "thought"}

SEEN_MEMBERS = ("title", "kind", "status", "content", "locations", "rawInput", "rawOutput")


@dataclass(slots=True)
class Screen:
    """One session in a client. Give it every update in order."""

    shown: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Messages with who wrote them (`person`, `agent`, `thought`), and `call` with its id."""
    calls: dict[str, JsonDict] = field(default_factory=dict[str, JsonDict])
    plan: list[JsonDict] = field(default_factory=list[JsonDict])
    commands: list[str] = field(default_factory=list[str])
    title: str = ""
    mode: str = ""
    used: int = 0
    _messages: dict[str, int] = field(default_factory=dict[str, int])

    def take(self, update: JsonDict) -> None:
        """Show one update.

        Raises:
            WireFaultError: a client would drop it, or show something twice.
        """
        kind: str = update["sessionUpdate"]
        match kind:
            case "user_message_chunk" | "agent_message_chunk" | "agent_thought_chunk":
                self._add_text(WRITERS[kind], update)
            case "tool_call":
                if update["toolCallId"] in self.calls:
                    raise WireFaultError(f"The call {update['title']!r} is shown twice.")
                self.calls[update["toolCallId"]] = dict(update)
                self.shown.append(("call", update["toolCallId"]))
            case "tool_call_update":
                self._change_call(update)
            case "plan":
                self.plan = update["entries"]
            case "available_commands_update":
                self.commands = [command["name"] for command in update["availableCommands"]]
            case "session_info_update":
                self.title = update.get("title") or self.title
            case "current_mode_update":
                self.mode = update["currentModeId"]
            case "usage_update":
                self.used = update["used"]
            case _:
                pass

    def said(self, since: int = 0) -> str:
        """All the agent wrote behind the first `since` things that are shown."""
        return "\n".join(text for who, text in self.shown[since:] if who == "agent")

    def calls_since(self, since: int) -> list[JsonDict]:
        """The calls behind the first `since` things that are shown."""
        return [self.calls[text] for who, text in self.shown[since:] if who == "call"]

    def history(self) -> list[tuple[object, ...]]:
        """All that a session opened again must show as it was: texts in order, and the calls without their output.

        Terminals are left out, as a replay shows their text.
        """
        return [self._in_history(who, text) for who, text in self.shown]

    def _in_history(self, who: str, text: str) -> tuple[object, ...]:
        if who != "call":
            return who, text
        call = self.calls[text]
        return call["title"], call.get("kind"), call.get("status"), call.get("locations"), diffs_of(call)

    def _add_text(self, writer: str, update: JsonDict) -> None:
        text = cast("str", update["content"].get("text", f"[{update['content']['type']}]"))
        message = update.get("messageId")
        # A client writes on at the message's own place only while nothing stands below it.
        if message is not None and self._messages.get(message) == len(self.shown) - 1 and self.shown:
            self.shown[-1] = (writer, self.shown[-1][1] + text)
            return
        self.shown.append((writer, text))
        if message is not None:
            self._messages[message] = len(self.shown) - 1

    def _change_call(self, update: JsonDict) -> None:
        call = self.calls.get(update["toolCallId"])
        if call is None:
            raise WireFaultError("A call is changed that is not shown.")
        if call.get("status") in FINAL:
            raise WireFaultError(f"The call {call['title']!r} is changed after its end.")
        call.update({key: update[key] for key in SEEN_MEMBERS if update.get(key) is not None})


def faults_of_call(call: JsonDict, folder: Path) -> list[str]:
    """What a person could not do with a finished call: open its diffs, follow its places, read what it did."""
    title: str = call["title"]
    faults: list[str] = []
    if call.get("status") not in FINAL:
        faults.append(f"{title!r} has no end: {call.get('status')}.")
    if "\n" in title or not title.strip():
        faults.append(f"{title!r} is no line.")
    paths = [Path(item["path"]) for item in diffs_of(call)]
    faults += [f"The diff of {title!r} is of a file elsewhere: {path}." for path in paths if folder not in path.parents]
    if call.get("status") == "completed":
        faults += [
            f"{title!r} cannot be followed to {place}." for place in _places(call) if not _leads_somewhere(place)
        ]
        if call.get("kind") in {"read", "edit"} and not _places(call):
            faults.append(f"{title!r} names no place to follow.")
        if call.get("kind") == "edit" and not paths:
            faults.append(f"{title!r} shows no diff.")
    return faults


def diffs_of(call: JsonDict) -> list[JsonDict]:
    """The diffs that a call shows."""
    content = cast("list[JsonDict]", call.get("content") or [])
    return [item for item in content if item["type"] == "diff"]


def _places(call: JsonDict) -> list[JsonDict]:
    return cast("list[JsonDict]", call.get("locations") or [])


def _leads_somewhere(place: JsonDict) -> bool:
    path = Path(place["path"])
    if not path.is_file():
        return path.is_absolute()
    return 1 <= (place.get("line") or 1) <= path.read_text(encoding="utf-8").count("\n") + 1
