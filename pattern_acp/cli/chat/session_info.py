"""The known facts of the session.

Owns: title, mode, model, commands, plan and usage, as the last update said. Must not know: how they are shown.
"""

from typing import cast

from msgspec import UNSET, Struct

from pattern_acp.acp import schema


def told_by_us(meta: object) -> dict[str, object]:
    """Return our agent's additions in `_meta.pattern`; empty for another agent."""
    ours = cast("dict[str, object]", meta).get("pattern") if isinstance(meta, dict) else None
    return cast("dict[str, object]", ours) if isinstance(ours, dict) else {}


class OpenedSession(Struct, frozen=True):
    """The session that was opened."""

    session_id: str
    cwd: str
    title: str = ""
    mode: str = ""
    model: str = ""
    thinking: str = ""
    """Empty when the model cannot be asked to think."""
    is_new: bool = True


class SessionInfo(Struct):
    """The session's state as its updates tell it."""

    cwd: str = ""
    title: str = ""
    mode: str = ""
    model: str = ""
    commands: tuple[schema.AvailableCommand, ...] = ()
    plan: tuple[schema.PlanEntry, ...] = ()
    usage: schema.UsageUpdate | None = None
    background_jobs: int = 0
    """Background commands that run."""

    def begin(self, opened: OpenedSession) -> None:
        """Know nothing but what an opened session began with."""
        self.cwd, self.title, self.mode, self.model = opened.cwd, opened.title, opened.mode, opened.model
        self.plan, self.usage, self.background_jobs = (), None, 0

    def take(self, update: schema.SessionUpdate) -> None:
        """Remember what an update says."""
        match update:
            case schema.PlanUpdate(entries=entries):
                self.plan = entries
            case schema.AvailableCommandsUpdate(available_commands=commands):
                self.commands = commands
            case schema.CurrentModeUpdate(current_mode_id=mode):
                self.mode = mode
            case schema.ConfigOptionUpdate(config_options=options):
                self._take_options(options)
            case schema.SessionInfoUpdate():
                self._take_info(update)
            case schema.UsageUpdate():
                self.usage = update
            case _:
                pass

    def _take_info(self, update: schema.SessionInfoUpdate) -> None:
        if update.title is not UNSET:
            self.title = update.title or ""
        jobs = told_by_us(update.meta).get("backgroundJobs")
        if isinstance(jobs, int):
            self.background_jobs = jobs

    def _take_options(self, options: tuple[schema.ConfigOption, ...]) -> None:
        for option in options:
            if isinstance(option, schema.SelectConfigOption):
                if option.id == "mode":
                    self.mode = option.current_value
                elif option.id == "model":
                    self.model = option.current_value
