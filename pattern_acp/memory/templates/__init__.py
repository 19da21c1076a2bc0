"""Templates of blocks: a schema, a description and settings under a name.

The `.toml` files here are the built-in ones.
"""
