"""Copies of an application's state that follow it, on any host.

Owns: what a replica reads, the epochs that it shows, and the thread that follows.
Entry: replica.py.
May import: gate, topics, commit and below. Must not import: start, an engine.
"""
