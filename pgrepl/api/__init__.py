"""What programs in Python use: `import pgrepl` finds its names here, each when it is first asked for.

    opened.py, connection.py, cursor.py    DB-API 2.0 (PEP 249) over a session in this process; begin here
    replication.py                         sync(), apply(), status() …, compare() and repair(), as dataclasses
    rounds.py                              what `pgrepl apply` does, whoever starts it
    overview.py                            what the page and /metrics show of a catalog
    datasource/                            Spark's data source
    sqlalchemy_dialect.py, pytest_plugin.py

Rule of the room: the command line prints what these functions return. Nothing heavy is imported before it is used.
"""
