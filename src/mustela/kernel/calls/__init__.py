"""Calls to the outside that never block the pipeline.

Owns: asynchronous calls, requests and replies, the records parked until their results come.
Entry: async_calls.py.
May import: core.
"""
