"""Bugs that are planted in operators to show that the differential test finds them.

Owns the list (``bugs.toml``: a line of the library and what it becomes), what plants one in a
process before the library is imported (`plant`), and the search for them (`search`).
"""
