"""The repr of values that carry secrets.

Owns: what such a repr shows. Must not know: any of these values.
"""

from msgspec import Struct


def repr_without(value: Struct, *hidden: str) -> str:
    """Give the repr of `value` without its fields `hidden`: a repr ends up in logs and in errors."""
    shown = (f"{name}={getattr(value, name)!r}" for name in value.__struct_fields__ if name not in hidden)
    return f"{type(value).__name__}({', '.join(shown)})"
