"""From nothing to the first epoch.

Owns: the claim, what a start finds in Kafka, the restore.
Entry: opening.py.
May import: gate, topics, commit and below.
"""
