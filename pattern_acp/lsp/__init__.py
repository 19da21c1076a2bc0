"""Language servers: finding and running them, their diagnostics, definitions and uses of symbols."""
