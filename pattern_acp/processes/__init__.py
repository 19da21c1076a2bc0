"""Other programs as child processes."""
