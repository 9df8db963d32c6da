"""State over HTTP: rows of stores, pages of them, their changes, and the user's own queries.

Owns: addresses below ``/stores`` and ``/queries``, their answers, cursors, the ring of changes, who
may see which store and field. Entry: application.py. May import: queries and every room below it;
starlette never, as a request here is read and answered directly. Must not: hold up the pipeline, or
keep more than its limits say.
"""
