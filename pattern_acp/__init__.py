"""pattern-acp: a coding agent that editors spawn over the Agent Client Protocol.

`PatternAgent` and the module `pattern_acp.api` are public; everything else is internal (embedding.md). The types
of this module are in `__init__.pyi`.
"""

__all__ = ["PatternAgent", "__version__"]  # pyright: ignore[reportUnsupportedDunderAll]

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    # Late: the SDK costs a second, and every editor that spawns the agent would pay it.
    if name == "PatternAgent":
        from importlib import import_module

        agent: object = import_module("pattern_acp.embedded_agent").PatternAgent
        return agent
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
