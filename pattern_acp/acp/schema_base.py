"""What every wire struct shares.

Wire structs carry the names of the ACP v1 schema. They are strict on types and tolerant of unknown keys; an optional
member that equals its default is left out on the wire, because some clients refuse an explicit null. `_meta` is a
member of its own and never mixes with the parameters (SDK fault 5 of reference acp.md).
"""

from typing import TypeAlias

import msgspec

Meta: TypeAlias = dict[str, object] | None
"""The `_meta` object: extensions by name (ACP v1, extensibility)."""


class Wire(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Root of the wire structs; it only sets how they are written."""


class MetaWire(Wire, frozen=True, kw_only=True):
    """A wire struct that may carry `_meta`."""

    meta: Meta = msgspec.field(name="_meta", default=None)
