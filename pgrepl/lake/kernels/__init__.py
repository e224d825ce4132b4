"""Work on the rows of tables in parts that are complete in themselves: "Spark schedules, Arrow computes".

A part is plain data that can be pickled: which rows of which files to read, what to do with them, where to write. A
kernel is one Python function that does a part over Arrow arrays, with memory for a portion of rows at a time; its
answer describes files. `here.play` does the parts in threads of this process, `on_spark.play` as tasks of a Spark
job: the rows pass neither the JVM nor the driver.

Rules: a kernel asks no catalog and no session. It writes into the job's folder (job.py), which the driver makes and
removes: so a task that runs twice leaves nothing behind. Read part.py, copy_rows.py, job.py.
"""
