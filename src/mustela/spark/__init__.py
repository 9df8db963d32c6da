"""The Spark engine: one Spark job per epoch.

Owns: building and running the job of an epoch, what its workers bring to the kernel's tasks and
carry off as frames, recovery as a job.
Entry: engine.py (SparkEngine) on the driver, worker.py and site.py on executors.
May import: runtime and every room below it; the only room that imports pyspark.
Must not: import testing. worker.py sees no dsl, planner, runtime or cli.
"""
