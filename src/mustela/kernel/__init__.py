"""What each operator means: one implementation, run unchanged by every engine.

Owns: the tasks of an epoch; operators over batches (a list per column), one file per kind of step.
Entry: task.py (source task, lane task), operators.py (the table from step kind to operator). What
operators are made of is in core; records, tables, aggregates, windows, joins, processors and calls
hold them.
May import: plan and every room below it.
Must not: do I/O, read a clock or draw random numbers; these are arguments. Only engines import it.
"""
