"""What is done to an application under faults, each in a way that shows that it really happened.

Owns: the shocks, one file per family. Entry: registry.py (all of them), shock.py (what one is).
"""
