"""pattern-acp: a coding agent that editors spawn over the Agent Client Protocol."""

__version__ = "0.1.0"
