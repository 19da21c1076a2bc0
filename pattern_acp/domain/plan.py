"""The plan that an agent shows for a longer task."""

from enum import StrEnum

from pattern_acp.domain.lazy_dataclass import dataclass


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


@dataclass(frozen=True, slots=True)
class PlanEntry:
    """One step."""

    content: str
    priority: PlanPriority = PlanPriority.MEDIUM
    status: PlanStatus = PlanStatus.PENDING


@dataclass(frozen=True, slots=True)
class Plan:
    """The whole plan; every update replaces the one before."""

    entries: tuple[PlanEntry, ...]
