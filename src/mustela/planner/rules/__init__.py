"""The rules that turn one flow into a better one, one per file.

Owns: functions of (Flow, PlanOptions) that return a Flow, each known by its name.
Entry: the tables in planner.py, which give the order.
May import: flow, placement and options of this room, plan and below.
Must not: import each other.
"""
