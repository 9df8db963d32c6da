"""Aggregates over time windows, sliding windows and sessions, and suppression.

Owns: windows, their updates and closing, combining before the exchange, suppression.
Entry: window_aggregate.py.
May import: core and aggregates.
"""
