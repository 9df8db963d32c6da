"""Records in and out, and stateless steps.

Owns: sources, sinks, routing, the exchange between stages, stateless steps, scheduled sources.
Entry: source.py, stateless.py, sink.py.
May import: core.
"""
