"""Running the turns of a session again, against what was recorded of its model, its tools and its user.

Owns: the recorded turn, the ports that answer from it, and the comparison. Must not know: the wire, or who asks.
"""
