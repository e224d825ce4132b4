"""The engine of a piece of work: the choice (choice), kernels over Arrow in parts that are complete in themselves and
where they run (copy_rows, change_rows, task, on_spark, job, run_kernels), the one Spark session (spark and the
modules with its name), and tables as Spark's DataFrames (scan_spark, changes_spark, stage_spark). Rule of the room:
"Spark schedules, Arrow computes": a kernel asks no catalog and no session; nothing imports pyspark, pyarrow or numpy
until rows are read or written."""
