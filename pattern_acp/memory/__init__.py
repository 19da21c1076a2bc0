"""The agent's memory: blocks as Loro documents, their history, and search over them and past messages.

Owns: the form of a block, how an edit becomes an update, what is stored of it, and what a search finds. Must not know:
the journal (a caller appends the event and hands its number over, rule R1), the model, sessions, or who asked.
"""
