"""Readers of stores: each answer is that of the committed epoch it names.

Owns: programs with stores of several kinds drawn from seeds, what each committed epoch left in them
by the changelogs alone, the judge of what clients were told. Entry: judge.py.
"""
