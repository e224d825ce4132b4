"""The engine of a piece of work: the choice, kernels over Arrow and where they run, and the one Spark session.

    choice.py                                   the choice; begin here
    copy_rows.py, change_rows.py, changes_rows.py   kernels
    run_kernels.py, job.py, task.py, on_spark.py    where they run
    spark.py, spark_start.py, spark_….py        the session
    scan_spark.py, changes_spark.py             tables as Spark's DataFrames
    frame_rows.py                               rows of DataFrames, written by kernels

Rule of the room: Spark schedules, Arrow computes: a kernel asks no catalog and no session. Nothing imports pyspark,
pyarrow or numpy until rows are read or written.
"""
