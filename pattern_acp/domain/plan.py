"""The plan that an agent shows for a longer task."""

from enum import StrEnum

from msgspec import Struct


class PlanPriority(StrEnum):
    """ACP's plan priorities."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class PlanStatus(StrEnum):
    """ACP's plan entry states."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"


class PlanEntry(Struct, frozen=True):
    """One step."""

    content: str
    priority: PlanPriority = PlanPriority.MEDIUM
    status: PlanStatus = PlanStatus.PENDING


class Plan(Struct, frozen=True):
    """The whole plan; every update replaces the one before."""

    entries: tuple[PlanEntry, ...]
