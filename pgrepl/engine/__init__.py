"""The engine of a piece of work: the choice, kernels over Arrow and where they run, and the one Spark session.

    choice.py                                   the choice between this process and Spark; begin here. It is asked by
                                                query/engine_choice.py, writing/planning.py, writing/copy/, and by
                                                publishers and subscribers for copies and batches
    copy_rows.py, modify_rows.py                kernels: of copies and batches; of INSERT ... SELECT, UPDATE and DELETE
    run_kernels.py, task.py, on_spark.py        where they run
    changes_frame.py                            what differs between two snapshots: positions, and whole columns
    spark.py, spark_start.py, spark_….py        the session
    scan_spark.py                               tables as Spark's DataFrames; copies of files that Spark cannot reach
    frame_rows.py                               rows of DataFrames, written by kernels
    result_spark.py                             rows of DataFrames, read by this process

Rule of the room: Spark schedules, Arrow computes: a kernel asks no catalog and no session. Nothing imports pyspark,
pyarrow or numpy until rows are read or written.
"""
