"""`pattern-acp journal`: checking, exporting, following, redacting and replaying what sessions recorded."""
