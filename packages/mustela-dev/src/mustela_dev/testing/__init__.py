"""Tests of applications with a real broker.

Owns: an application under test on Spark, the pytest fixtures.
Entry: running.py (RunningApp), plugin.py (fixtures).
May import: the broker, the library.
Must not: import demo or commands.
"""
