"""Sync: the memory of several machines of one user, joined through a folder or a server that nobody has to trust.

Owns: what leaves this machine and when, and taking over what comes. Must not know: sessions, who is asked.
"""
