"""Checkpoints, and going back to an earlier moment of a session.

Owns: saving what a session changes, planning and carrying out a rewind, forks. Must not know: sessions, commands,
the wire.
"""
