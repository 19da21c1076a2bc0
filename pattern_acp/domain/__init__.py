"""Value types that every layer shares.

Owns: what a message, a tool call, a plan, a usage figure and an error *are*. Must not know: any protocol, file,
network, database or third-party library. Everything here is immutable and needs the standard library only.
"""
