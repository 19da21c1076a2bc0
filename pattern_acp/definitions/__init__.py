"""Commands and skills that people write as Markdown files.

Owns: finding the files, reading their head, and what a command's text becomes. Must not know: sessions, trust, or who
runs anything.
"""
