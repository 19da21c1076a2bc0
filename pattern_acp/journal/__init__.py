"""The append-only record of everything that happened.

Owns: events and their JSON form, the per-session hash chain, blobs, the row of each session, and leases. Must not know:
memory documents, providers, tools' code or ACP.
"""
