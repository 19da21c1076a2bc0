"""JSON-RPC 2.0 over lines, knowing nothing of ACP.

Owns: framing, parsing, correlation, cancellation in wire order, the exception boundary of requests, and the claim of
the process's standard descriptors. Must not know: any method's name or meaning, except `$/cancel_request` which
JSON-RPC peers share, and the names it has to handle at once.
"""
