"""The Processor API: contexts, stores, timers, atomic operations.

Owns: processors, their contexts and timers, transactions over stores, updates by key.
Entry: processor.py.
May import: core.
"""
