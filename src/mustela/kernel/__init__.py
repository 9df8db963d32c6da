"""The semantics of each operator: one implementation, run unchanged by every engine.

Owns: the tasks of an epoch; operators over batches (a list per column), one file per kind of step.
Entry: task.py (source task, lane task), operators.py (the table from step kind to operator). core
holds what operators are built from; records, tables, aggregates, windows, joins, processors and
calls hold the operators. May import: plan and every room below it. Must not: do I/O, read a clock
or draw random numbers; these are arguments. Only engines import it.
"""
