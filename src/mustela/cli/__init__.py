"""The command line: mustela run, describe, doctor, send, tail and others.

Owns: commands, their output (tables for people, --json for programs) and exit codes.
Entry: main.py (main).
May import: every room but spark and kernel; the engine is chosen by name.
Must not: hold logic that a Python program would want too.
"""
