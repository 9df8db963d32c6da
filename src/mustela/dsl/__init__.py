"""What a user writes with: StreamsBuilder, KStream, KTable and the other handles.

Owns: the public handles; each call adds one node to the logical topology.
Entry: builder.py (StreamsBuilder).
May import: topology and every room below it.
Must not: know plans, engines or Kafka clients; read a clock; run user functions.
"""
