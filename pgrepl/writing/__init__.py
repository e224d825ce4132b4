"""What changes rows: INSERT, UPDATE, DELETE, TRUNCATE (`run` begins), COPY (`copy/`), ALTER TABLE (`rewrite/`).

Rule of the room: what must hold of rows is asked in `rows`, what is read for it in `query`; here it is decided what is
written, in this process or by Spark.
"""
