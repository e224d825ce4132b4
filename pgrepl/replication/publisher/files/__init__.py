"""Files of changes as a publisher: `files=landing/orders format=debezium dbname=shop`.

A database of this instance declares the tables and the publications; the changes of its tables come from files. Read in
this order:

options.py            the options of the connection string
listing.py            the files of a folder, a pattern or an object store, in their order
memory.py             which files have been read, and their checksums: rows of the catalog, written with the origin
source.py             one file, opened: what has been read of it, and whether its last line is complete
ordered.py            the records of a file in the order of a column
transactions.py       where transactions begin and end
declared.py           what a record means to its declared table: pgoutput's messages, or an error that names the record
stream.py             the transactions, message by message
columns.py            the same rules for whole blocks of records
numbered_block.py     blocks of records with sequence numbers
decided.py            their messages, decided by columns and kept in files
batch.py              the transactions as columns, read by this process
batch_spark.py        the same, read by tasks of Spark: divided.py into parts, file_part.py the kernel, described.py
                      what tables mean to it, checksums.py of parts put together
rejects.py            records that could not be read
change_stream.py      the stream of all of this; publisher.py: the publisher, which has neither slots nor copies

An LSN is the number of a file and the number of a record in it: 3/1F4 is the record 500 of the third file.
"""
