"""`pattern-acp journal`: checking, exporting, following and redacting what sessions recorded."""
