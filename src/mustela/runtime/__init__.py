"""The life of an application.

Owns: App, the Engine protocol, the commit barrier as a pure state machine, retries, metrics.
Entry: app.py (App).
May import: dsl, planner, connectors, broker and every room below them.
Must not: import an engine (they register by entry point) or the kernel.
"""
