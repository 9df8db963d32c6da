"""The life of an application.

Owns: App, the Engine protocol, the commit barrier as a pure state machine, retries, metrics. Entry:
app.py (App), coordinator.py (the loop). Sub-rooms: epoch (one epoch), start (before the first),
gate (whether it may continue), cutting (what an epoch reads), commit (its one transaction), time,
topics, record, repairs. May import: dsl, planner, connectors, broker and every room below them.
Must not: import an engine (they register by entry point) or the kernel.
"""
