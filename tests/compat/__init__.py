"""The compatibility matrix: Kafka Streams' public methods, Mustela's names for them, and the tests.

Owns the list of Kafka Streams' methods (`api`), what each is here (``rows.toml``), and the page
made of both and of a run of the tests (`matrix`). `./dev compat` writes docs/compat/matrix.md.
"""
