from pattern_acp.embedded_agent import PatternAgent

__all__ = ["PatternAgent", "__version__"]

__version__: str
