"""Mustela beside Kafka Streams: random topologies and records through both, and a comparison.

Owns the description of a topology that both sides build (`steps`, ``java/Steps.java``), what draws
it (`draw`) and what compares (`compare`). Start reading at `test_differential`.
"""
