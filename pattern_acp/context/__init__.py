"""Contents of requests to the model.

Owns: the system prompt, project instructions, the history as a provider accepts it, and the volatile last segment.
Must not know: tools' code, the provider's wire, or how anything is stored.
"""
