"""Calls to external services that never block the pipeline.

Owns: asynchronous calls, requests and replies, the records parked until their results arrive.
Entry: async_calls.py.
May import: core.
"""
