"""The OpenAI Responses wire, without state on the server.

Owns: its format, in pure `encode` and `decode`, and what joins them in `provider`. Must not know: how HTTP is carried
out, retries, other wires.
"""
