"""Clouds that serve the models of the Anthropic wire: where they are, and whose account is used.

Owns: the addresses of regions, and the variables that say region and project where config.toml does not. Must not know:
how a cloud is asked for access (credentials), or how a request is built (providers).
"""

from collections.abc import Callable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.config.settings import Host, ProviderSettings
from pattern_acp.domain.late_pattern import late_pattern

_REGION = late_pattern(r"[a-z0-9]+(-[a-z0-9]+){0,5}")
_PROJECT = late_pattern(r"([a-z0-9.-]{1,100}:)?[a-z0-9][a-z0-9-]{2,61}")
"""A project's id, in older accounts behind its domain; a number serves as well."""


class Cloud(Struct, frozen=True):
    """One cloud. `address` gives the base URL of a region."""

    address: Callable[[str], str]
    region_variables: tuple[str, ...]
    usual_region: str
    """Empty where there is none that serves everybody."""


def _google_address(region: str) -> str:
    match region:
        case "global":
            host = "aiplatform.googleapis.com"
        case "us" | "eu":
            host = f"aiplatform.{region}.rep.googleapis.com"
        case _:
            host = f"{region}-aiplatform.googleapis.com"
    return f"https://{host}/v1"


def _amazon_address(region: str) -> str:
    return f"https://bedrock-runtime.{region}.amazonaws.com"


HOSTS: Mapping[Host, Cloud] = {
    "vertex": Cloud(_google_address, ("CLOUD_ML_REGION",), "global"),
    "bedrock": Cloud(_amazon_address, ("AWS_REGION", "AWS_DEFAULT_REGION"), ""),
}
"""Addresses and variables are those of the clouds' documentation and of Anthropic's own clients (November 2026)."""

PROJECT_VARIABLES = ("ANTHROPIC_VERTEX_PROJECT_ID", "GOOGLE_CLOUD_PROJECT")


def with_place(provider: ProviderSettings, environ: Mapping[str, str]) -> tuple[ProviderSettings, str]:
    """`provider`, which has a host, with region, project and address; and what is wrong, empty when nothing is."""
    cloud = HOSTS[provider.host]
    region = provider.region or _first(environ, cloud.region_variables) or cloud.usual_region
    project = provider.project or (_first(environ, PROJECT_VARIABLES) if provider.host == "vertex" else "")
    if not region:
        return provider, f"it needs a region: set region in it, or ${cloud.region_variables[0]}"
    # Both become part of an address, and what comes from the environment was not looked at yet.
    if not _REGION.fullmatch(region):
        return provider, f"${' or $'.join(cloud.region_variables)} holds no region, which is such as europe-west1"
    if project and not _PROJECT.fullmatch(project):
        return provider, f"${' or $'.join(PROJECT_VARIABLES)} holds no project, which has small letters, digits and -"
    address = provider.base_url or cloud.address(region)
    return replace(provider, region=region, project=project, base_url=address), ""


def _first(environ: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((value for name in names if (value := environ.get(name, "").strip())), "")


def set_host(provider: ProviderSettings, raw: object) -> ProviderSettings | None:
    """`provider` at the cloud that config.toml names; None when it is none."""
    for host in HOSTS:
        if raw == host:
            return replace(provider, host=host)
    return None


def set_region(provider: ProviderSettings, raw: object) -> ProviderSettings | None:
    """`provider` in the region that config.toml names; None when it cannot be one."""
    return replace(provider, region=raw) if isinstance(raw, str) and _REGION.fullmatch(raw) else None


def set_project(provider: ProviderSettings, raw: object) -> ProviderSettings | None:
    """`provider` with the project that config.toml names; None when it cannot be one."""
    return replace(provider, project=raw) if isinstance(raw, str) and _PROJECT.fullmatch(raw) else None
