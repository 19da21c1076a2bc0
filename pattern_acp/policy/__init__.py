"""What the agent may do.

Owns: modes, rules, grants, the reading of shell lines, and the one decision that every effect goes through, with its
reason. Must not know: tools, ACP, files (it is handed resolved facts), or how the person is asked.
"""
