"""The applications that the fault tests kill: what they do, are fed, and must write.

One file per family; `registry` holds all kinds.
"""
