"""Settings: what they are, where they come from, and where files live.

Owns: reading flags, environment and TOML files, precedence, and the platform's directories. Must not know: what any
setting does.
"""
