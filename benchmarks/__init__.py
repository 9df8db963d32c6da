"""Mustela beside its peers: the same records, the same broker, checked outputs, measured alike.

Owns: workloads and their oracles, the peers, the measuring, `docs/benchmarks.md`.
Entry: __main__.py (`python -m benchmarks list | run | report`).
May import: mustela's public API and its development broker, confluent_kafka.
Must not: be imported by the library; give a number to a run whose output is wrong.
"""
