"""What mustela-dev adds to the command line: the broker, Kafka's tools, a check of the doctor.

Owns: these commands and their output; the entry points in packages/mustela-dev/pyproject.toml.
Entry: broker.py, tools.py (kafka_tool), examination.py.
May import: broker; from the library, cli, config, errors, java.
Must not: hold logic that a Python program might need.
"""
