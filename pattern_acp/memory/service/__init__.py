"""Memory as a whole, for tools, commands and editors: each change with its event, each answer with its source.

Owns: joining the documents of memory with the journal. Must not know: tools, sessions, how results are shown.
"""
