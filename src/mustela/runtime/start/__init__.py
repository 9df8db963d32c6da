"""Starting: everything before the first epoch.

Owns: the claim, reading what the last run left in Kafka, the restore.
Entry: opening.py.
May import: gate, topics, commit and below.
"""
