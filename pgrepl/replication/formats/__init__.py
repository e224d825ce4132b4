"""Changes of tables in files: the formats in which other programs write them, read and written.

    event.py              one change as a record of a file tells it; errors of records; many changes as columns
    registry.py           readers and writers by the names of their formats, and their options
    json_text.py, arrow_text.py   files, compressed or not; values of JSON and of Arrow as PostgreSQL's text
    json_columns.py       JSON lines read by columns
    debezium.py           Debezium and Maxwell; debezium_values.py, debezium_columns.py, debezium_written.py
    wal2json.py, plugins.py (test_decoding, pgoutput)
    rows.py, plain.py, feeds.py   CSV, Parquet and JSON lines as rows; pgrepl's own; AWS DMS; feeds of Delta, DuckLake
    written.py, sinks.py  what writers share, and where it goes

Rule of the room: a reader knows no catalog and no subscription. It turns bytes into events, in the order of the file,
and keeps at most one record or one block of them in memory. Values stay text, digit by digit.
"""
