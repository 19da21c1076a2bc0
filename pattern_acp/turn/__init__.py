"""One prompt turn: build, stream, run tools, repeat until a stop reason.

Owns: the loop, its limits, reading a provider's stream into a message, running tool calls under policy, and the order
"journal first, user second". Must not know: ACP, how sessions are stored, which editor or provider is behind a port.
"""
