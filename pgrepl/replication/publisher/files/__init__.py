"""Files of changes as a publisher: `files=landing/orders format=debezium dbname=shop`.

A database of this instance declares the tables and the publications; the changes of its tables come from files. Read
in this order:

    listing.py            options, and the files of a folder, a pattern or an object store, in their order
    memory.py             which files have been read, and their checksums: rows of the catalog, written with the origin
    source.py, cursor.py  one file, opened; its records, and those that could not be read
    transactions.py       where transactions begin and end
    declared.py           what a record means to its declared table: pgoutput's messages, or an error that names it
    stream.py             the transactions, message by message or as columns; columns.py: whole blocks of records
    batch_spark.py        the same, read by tasks of Spark, in parts; file_part.py the kernel
    publisher.py          the stream of all of this, and the publisher, which has neither slots nor copies

An LSN is the number of a file and the number of a record in it: 3/1F4 is the record 500 of the third file.
"""
