"""Who is talking: sessions and what they share.

Owns: the life of a session (new, load, resume, list, close, delete), its single active turn, modes and options, slash
commands, and what a replay consists of. Must not know: ACP's wire, file descriptors, or which editor is connected.
"""
