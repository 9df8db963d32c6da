"""Readers of stores under faults: each answer is that of the committed epoch it names.

Owns: programs with stores of several kinds drawn from seeds, the clients that ask them in all ways,
what each committed epoch left, the judge. Entry: campaign.py, by `./dev faults --reads N`; a slice
of it is test_reads.py.
"""
