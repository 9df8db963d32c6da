"""Event time and pauses in the driver.

Owns: the watermark, held partitions, when key groups are due, when the next epoch begins.
Entry: watermark.py.
May import: the runtime's record and ports.
"""
