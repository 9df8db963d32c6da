"""Stores of a running application as Spark data frames.

Owns: the data source ``mustela`` of PySpark, and how its readers ask the application.
Entry: data_source.py (`register`, `MustelaDataSource`); `asking.py` is the HTTP side.
May import: admin, client and every room below them, pyspark and pyarrow. Must not: open state,
which a running process writes. It runs in Spark's planning processes and workers, without an App.
"""
