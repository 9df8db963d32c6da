"""Event time and pauses, as the driver sees them.

Owns: the watermark, held partitions, when key groups are due, when the next epoch begins.
Entry: watermark.py.
May import: the runtime's record and ports.
"""
