"""The programs that are compared, each as an expert in it would write it.

Owns: one class per peer that starts and stops it, and its program.
Entry: registry.py.
May import: the harness's measuring and Kafka helpers.
Must not: know what the right output is.
"""
