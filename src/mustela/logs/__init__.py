"""What an application writes to its log, and in which form.

Owns: the form of a line, what is masked in it, and where a process that Mustela owns writes it.
Start at: `output.py`. May import config and errors, and nothing that takes long to import: Spark's
workers run it. Must not: write a line by itself, or touch the logging of a program that only uses
Mustela as a library.
"""
