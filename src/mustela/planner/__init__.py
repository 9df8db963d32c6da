"""From the logical topology to a plan, by named rules.

Owns: the rules (rules/, one per file), their order and switches, explain().
Entry: planner.py (plan), explain.py (explain).
May import: plan and every room below it.
Must not: do I/O, read a clock, or depend on anything but its arguments.
"""
