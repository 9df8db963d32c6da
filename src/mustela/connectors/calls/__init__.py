"""Calls to the outside that steps make: attempts, limits, and results that outlive a task.

Owns: threads and loops that make calls, the files in which results reach other processes.
Entry: `pool`. May import: plan and below. Must not: know of Spark, stores or the kernel.
"""
