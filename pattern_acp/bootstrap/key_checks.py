"""What doctor says of keys: where each provider's comes from, and whether a file holds one."""

from pathlib import Path

from pattern_acp.bootstrap.credentials import KeysOfPerson
from pattern_acp.bootstrap.findings import Finding, Health
from pattern_acp.config.load import known_secrets
from pattern_acp.config.settings import Settings
from pattern_acp.domain.errors import SignInError
from pattern_acp.memory.secrets import find_secret
from pattern_acp.providers.endpoints import sent_openly


def key_findings(settings: Settings, keys: KeysOfPerson) -> list[Finding]:
    """Where each provider's key comes from, and which others are there and not used."""
    try:
        keys.store.check()
    except SignInError as error:
        remedy = "The sentence above says what to do."
        return [Finding("Credentials", Health.NOTE, error.sentence, remedy, code=error.failure_code)]
    findings: list[Finding] = []
    for provider in settings.providers.values():
        sources = keys.stored.sources(provider)
        if sources:
            others = ", ".join(each.where for each in sources[1:])
            unused = f"; not used: {others}" if others else ""
            findings.append(Finding(f"Key of {provider.name}", Health.OK, f"{sources[0].sentence}{unused}"))
        if (sources or provider.headers) and (warning := sent_openly(provider)):
            findings.append(Finding(f"Address of {provider.name}", Health.NOTE, warning, "Change its base_url."))
    return findings


def holds_no_secret(path: Path, settings: Settings) -> bool:
    """Whether a file holds no secret of the settings and nothing that looks like one, so that others may read it."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return False
    return find_secret(text) is None and not any(secret in text for secret in known_secrets(settings) if secret)
