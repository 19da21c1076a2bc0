"""Pattern as a persona of Jupyter AI."""

from pathlib import Path

from jupyter_ai_acp_client.base_acp_persona import BaseAcpPersona
from jupyter_ai_persona_manager import PersonaDefaults


class PatternPersona(BaseAcpPersona):
    """Starts the agent and speaks to it; one process serves all chats."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, executable=["pattern-acp", "acp"], **kwargs)

    @property
    def defaults(self) -> PersonaDefaults:
        """How the persona shows itself in the chat."""
        return PersonaDefaults(
            name="Pattern",
            description="A coding agent whose memory can be read, blamed and undone.",
            avatar_path=str(Path(__file__).with_name("pattern.svg")),
            system_prompt="unused",
        )
