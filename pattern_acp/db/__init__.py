"""The constellation file as a mechanism.

Owns: the SQLite driver, pragmas, transactions, migrations, the schema, loading named queries and the vector
extension. Must not know: what any row means.
"""
