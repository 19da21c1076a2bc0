"""Language servers: finding and running them, what they find wrong, and where things are defined and used."""
