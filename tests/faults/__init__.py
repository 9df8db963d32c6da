"""The fault harness: applications killed at every phase of the epoch protocol, and their oracle.

Owns: child applications, the reader that watches, the feeder, planted bugs, `./dev faults`.
Entry: __main__.py (the long run), campaign.py (one application under kills).
"""
