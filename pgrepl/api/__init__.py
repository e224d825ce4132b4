"""What programs in Python use: `import pgrepl` finds its names here, each when it is first asked for.

    connection.py, cursor.py    DB-API 2.0 (PEP 249) over a session in this process
    replication.py              sync(), apply(), status(), publications(): what the commands do, as dataclasses
    comparing.py                compare() and repair()
    datasource/                 a Spark data source: tables, published rows, streams of changes, writes that happen once
    sqlalchemy_dialect.py       SQLAlchemy's dialect; pytest_plugin.py fixtures for tests of pipelines

Rules: the command line prints what these functions return, so this floor is below the shell's. Nothing heavy is
imported before it is used. Read opened.py, connection.py, cursor.py.
"""
