"""The fault harness: applications under faults, and the oracles that judge what they wrote.

Owns: child applications, the reader that watches, the feeder, shocks, planted bugs, `./dev faults`.
Entry: __main__.py (the long run), slices.py (one application under what is drawn for it), shocks
(what is done to it), kinds (the applications), ledger.py (what was done so far, in results).
"""
