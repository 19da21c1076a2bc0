"""Commands of the user: what they are called, what they take, and how their results are shown."""
