"""The Kafka client, and nothing else that talks to Kafka.

Owns: readers of offset ranges, the transactional producer, admin calls, offsets, the epochs topic.
Entry: ranges.py (read), transaction.py (write), admin.py (ask), log.py (restore), tools.py (hand),
writers (several processes, one transaction).
May import: what connectors may; the only package that imports confluent_kafka.
Must not: retry without a named limit, or decide what a failed transaction means.
"""
