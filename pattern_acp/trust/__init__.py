"""Folders that the user trusts.

Owns: the remembered decisions and what is new since. Must not know: sessions, the editor, or how parts are found.
"""
