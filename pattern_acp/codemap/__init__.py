"""The code map: definitions, imports and calls of a workspace's source files, found by tree-sitter.

Owns: the languages, reading symbols out of a file, the index file and its schema, how fresh it is, and building it in a
process of its own. Must not know: tools, sessions, policy, or how the workspace is listed (`model.ListFiles` is the
port). tree-sitter is imported in the building process only.
"""
