"""Small repositories with one failing test each, and what a model does to mend them; made by code, byte for byte."""
