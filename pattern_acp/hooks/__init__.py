"""Commands of the user, or of a project they trust, that run at events of a session.

Owns: what such a command reads, how it runs, and what its answer means. Must not know: sessions, policy, or who
trusts what. Events, keys and answers are those of Claude Code's hooks, so that scripts written for it work; the source
is its published documentation of hooks (docs/how-to/hooks.md says what is the same).
"""
