"""The code map: what a workspace's source files define, import and call, found by tree-sitter.

Owns: the languages, reading symbols out of a file, the index file and its schema, how fresh it is, and building it in a
process of its own. Must not know: tools, sessions, policy, or how a listing of the workspace is made (`model.ListFiles`
is the port). tree-sitter is imported in the building process only.
"""
