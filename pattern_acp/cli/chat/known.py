"""What is known of the session.

Owns: title, mode, model, commands, plan and usage, as the last update said. Must not know: how they are shown.
"""

from dataclasses import dataclass

from msgspec import UNSET

from pattern_acp.acp import schema


@dataclass(slots=True)
class Known:
    """The session's state as its updates tell it."""

    cwd: str = ""
    title: str = ""
    mode: str = ""
    model: str = ""
    commands: tuple[schema.AvailableCommand, ...] = ()
    plan: tuple[schema.PlanEntry, ...] = ()
    usage: schema.UsageUpdate | None = None
    background_jobs: int = 0
    """Background commands that ran at the end of the last turn."""

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
            case schema.SessionInfoUpdate(title=title) if title is not UNSET:
                self.title = title or ""
            case schema.UsageUpdate():
                self.usage = update
            case _:
                pass

    def _take_options(self, options: tuple[schema.ConfigOption, ...]) -> None:
        for option in options:
            if isinstance(option, schema.SelectConfigOption):
                if option.id == "mode":
                    self.mode = option.current_value
                elif option.id == "model":
                    self.model = option.current_value
