"""Keys and sign-ins of providers: where they are kept, which one is used, and how OAuth gets and renews them.

Must not know: how a provider is spoken to, sessions, and how HTTP is carried out (the `Post` port does).
"""
