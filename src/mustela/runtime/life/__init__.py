"""The life of an application in a process: its states, hooks, lives, and what ends them.

Owns: the application's state, hooks, health indicators, the uncaught-exception handler, the
watchdog of commits. Entry: lives.py (Lives). May import: all of the runtime but app.py. Must not:
know how an epoch runs.
"""
