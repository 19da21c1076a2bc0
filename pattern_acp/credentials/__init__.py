"""Keys and sign-ins of providers: their storage, the choice among them, and OAuth with its renewals.

Must not know: how a provider is spoken to, sessions, and how HTTP is carried out (the `Post` port does).
"""
