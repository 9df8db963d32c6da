"""SQL over the stores of an application: one SELECT, as of one committed epoch.

Owns: what columns a store has, which rows a statement needs of it, the process that runs DuckDB.
Entry: asking.py (`ask`). child.py is that process, which has nothing of the application's but the
rows that it is given. May import: queries and every room below it; duckdb and pyarrow only when a
statement is asked. Must not: run or parse a statement in this process.
"""
