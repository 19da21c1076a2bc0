"""ACP on one side, the domain on the other.

Owns: the wire structs, one short handler a method, the translation of events to session updates, and the editor as an
adapter of files, terminals and permission. Must not know: how a turn works, what is stored, or which model answers.
"""
