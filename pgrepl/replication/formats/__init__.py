"""Changes of tables in files: the formats in which other programs write them, read and written.

event.py              one change as a record of a file tells it; errors of records; many changes as columns
registry.py           the readers by the names of their formats, and their options
opening.py            files, compressed or not
json_text.py, arrow_text.py   values of JSON and of Arrow as PostgreSQL's text
json_columns.py       JSON lines read by columns; blocks.py: the events of columns one by one
debezium.py           Debezium's events (debezium_values.py, by columns debezium_columns.py); wal2json.py,
                      test_decoding.py, pgoutput_file.py, maxwell.py; jsonl.py: pgrepl's own
rows.py               CSV, Parquet and JSON lines as rows: plain.py with columns named by options and AWS DMS's,
                      feeds.py of Delta and DuckLake
written.py            what writers share; writers.py by name; jsonl_written.py, wal2json_written.py, debezium_written.py
                      (debezium_encode.py); sinks.py: where it goes, Parquet among it; sink_owner.py: whose it is

Rule of the room: a reader knows no catalog and no subscription. It turns bytes into events, in the order of the file,
and keeps at most one record or one block of them in memory. Values stay text, digit by digit.
"""
