"""What a user writes: StreamsBuilder, KStream, KTable, windows and options.

Owns: the public handles and option objects; each call adds one node to the logical topology.
Entry: builder.py (StreamsBuilder).
May import: topology and every room below it.
Must not: know plans, engines or Kafka clients; read a clock; run user functions.
"""
