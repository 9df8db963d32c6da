"""Bytes of Kafka Streams: what its changelogs and its commits hold.

Owns the formats of another program, as small pure functions. Start reading in `changelogs`. May
import what connectors may; must not ask a broker: `connectors.kafka` does.
"""
