"""Backups, segment files, rebuilding a constellation from them, and the checks and repairs behind `doctor` and `gc`.

Owns: how a damaged or lost constellation comes back. Must not know: the wire, or who asks.
"""
