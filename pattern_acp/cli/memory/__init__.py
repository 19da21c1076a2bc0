"""`pattern-acp memory`: looking at memory and its history, and changing it, from the terminal."""
