"""Models behind one port.

Owns: the wires (Anthropic Messages, OpenAI Chat Completions), retries, model choice, and the two providers without a
model (offline, scripted). Must not know: sessions, tools' code, the editor, the journal or memory.
"""
