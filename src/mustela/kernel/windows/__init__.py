"""Aggregations over time windows, sliding windows and sessions, and suppression.

Owns: windows, updating and closing them, combining before the exchange, suppression.
Entry: window_aggregate.py.
May import: core and aggregates.
"""
