"""Permission policy: the rules on what the agent may do.

Owns: modes, rules, grants, the reading of shell lines, and the one decision that every effect goes through, with its
reason. Must not know: tools, ACP, files (it works on resolved facts), or how the user is asked.
"""
