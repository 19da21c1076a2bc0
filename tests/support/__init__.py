"""Fakes for every port, shared by our tests and by users of the library."""
