"""Bugs that the simulator must find, and the search for them."""
