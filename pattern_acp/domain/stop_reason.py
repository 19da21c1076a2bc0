"""Why a prompt turn ended."""

from enum import StrEnum


class StopReason(StrEnum):
    """ACP's five stop reasons."""

    END_TURN = "end_turn"
    MAX_TOKENS = "max_tokens"
    MAX_TURN_REQUESTS = "max_turn_requests"
    REFUSAL = "refusal"
    CANCELLED = "cancelled"
