"""Ways into and out of the world outside.

Owns: one package per kind of system; kafka is the first.
Entry: kafka/.
May import: plan and every room below it.
Must not: know the DSL, an engine or the life of an application.
"""
