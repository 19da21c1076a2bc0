"""Contents of blocks other than plain text.

Owns: the schemas, and for each the pure rules: how it reads, how its text is read back, what is valid, and which steps
lead from one content to another. Must not know: Loro, SQL, permissions, who writes.
"""
