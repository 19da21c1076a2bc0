"""Settings that are valid one by one and do not go together.

Owns: what is said of them. Must not know: how a setting is read, or what is done with it.
"""

from collections.abc import Iterable, Iterator

from pattern_acp.config.presets import PRESETS
from pattern_acp.config.problem import Problem
from pattern_acp.config.settings import Settings
from pattern_acp.config.toml_file import TomlFile


def contradictions(settings: Settings, models: Iterable[str], user: TomlFile) -> Iterator[Problem]:
    """What the person would be surprised by; everything is used as it is written."""
    known = {*settings.providers, *PRESETS}
    for name in settings.fallback:
        provider = name.partition("/")[0]
        if provider not in settings.providers:
            sentence = f"{name} is passed over, since there is no provider {provider}; set up [providers.{provider}]."
            yield user.problem("fallback", sentence)
    for name in models:
        provider = name.partition("/")[0]
        if provider not in known:
            sentence = f"there is no provider {provider}, so it says nothing; set up [providers.{provider}]."
            yield user.problem(f"models.{name}", sentence)
    threshold, target = settings.compaction.threshold_percent, settings.compaction.target_percent
    if target >= threshold:
        sentence = f"it must be below threshold_percent, which is {threshold}; {threshold * 9 // 10} is used."
        yield user.problem("compaction.target_percent", sentence)
