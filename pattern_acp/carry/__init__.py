"""Carrying memory and sessions from one constellation to another, in one file.

Owns: the file (a CAR, carry.md), what goes into it, and what of it is new here. Must not know: how a command is
typed, or how an answer is shown.
"""
