"""The Gemini wire: `generateContent`, streamed.

Owns: its format, in pure `encode`, `schema` and `decode`, and what joins them in `provider`. Must not know: how HTTP is
carried out, retries, other wires.
"""
