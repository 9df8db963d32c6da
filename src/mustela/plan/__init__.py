"""The physical plan: what engines run.

Owns: steps, exchanges, state slots, the versioned layout of the blobs that travel between stages.
Entry: plan.py (Plan).
May import: topology and every room below it.
Must not: know an engine, or the DSL that led here.
"""
