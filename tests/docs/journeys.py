"""The seven journeys of docs/architecture.md, played in this process: which modules are entered, in order.

python -m tests.docs.journeys FOLDER [URI]    prints them, room by room; URI is an empty database of a server
"""

from __future__ import annotations

import inspect
import os
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from types import FrameType

from pgrepl.cli import run
from pgrepl.engine import spark
from pgrepl.replication.subscriber import table_workers

TABLE = "CREATE TABLE t (k int PRIMARY KEY, v text)"
LOW = ("types", "sql", "expr", "catalog", "errors", "frozen", "interrupts", "memory")  # floors that no journey names

SETUP = (
    ("-q", "-c", "CREATE DATABASE shop", "-c", "CREATE DATABASE copy", "-c", "CREATE DATABASE mirror",
     "-c", "ALTER DATABASE copy SET pgrepl.local_rows = 100", "-c", "ALTER DATABASE copy SET pgrepl.spark_rows = 100",
     "-c", "ALTER SYSTEM SET logical_decoding_work_mem = '64kB'"),  # so 6,000 changes are too many for memory
    ("-q", "-d", "shop", "-c", TABLE, "-c", "INSERT INTO t SELECT i, 'x' FROM generate_series(1, 6000) i"),
)  # fmt: skip
SUBSCRIBE = (
    "-q", "-d", "copy", "-v", "AUTOAPPLY=off", "-c", TABLE,
    "-c", "CREATE SUBSCRIPTION s CONNECTION 'dbname=shop' PUBLICATION p",
)  # fmt: skip
HERE = (  # what tasks of Spark enter is seen
    "-q", "-d", "copy", "-v", "AUTOAPPLY=off", "-c", "ALTER DATABASE copy SET pgrepl.engine = local",
)  # fmt: skip
FROM_SERVER = (
    "-q", "-d", "mirror", "-v", "AUTOAPPLY=off", "-c", "CREATE TABLE remote (k int PRIMARY KEY, v text)",
    "-c", "CREATE SUBSCRIPTION r CONNECTION '{uri}' PUBLICATION p",
)  # fmt: skip


def is_importing(frame: FrameType | None) -> bool:
    """Whether a module's own lines call it: when that is depends on who imports it first."""
    while frame is not None and frame.f_code.co_filename != "<frozen importlib._bootstrap>":
        frame = frame.f_back
    return frame is not None


def command(*arguments: str) -> None:
    assert run(arguments) == 0, arguments


def traced(action: Callable[..., object], *arguments: str) -> list[str]:
    """The modules that an action enters, each once."""
    entered: dict[str, None] = {}  # a set in order, to which threads add
    unnamed: set[str] = set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        module = frame.f_globals.get("__name__", "")
        if module in entered or module in unnamed:
            return
        if not module.startswith("pgrepl.") or module.split(".")[1] in LOW:
            unnamed.add(module)
        elif frame.f_code.co_flags & inspect.CO_OPTIMIZED and not is_importing(frame):
            entered.setdefault(module)

    threading.settrace(note)
    sys.settrace(note)  # hears of calls only, which is cheaper than a profile
    try:
        action(*arguments)
    finally:
        sys.settrace(None)
        threading.settrace(None)
    return [module.removeprefix("pgrepl.") for module in entered]


def one_changed_row() -> list[str]:
    """A row that reaches a session before its next statement; it is not the first one."""
    from tests.harness.database import Database

    with Database(Path(), "shop") as shop, Database(Path(), "copy") as copy:
        for key in (8, 9):
            shop(f"UPDATE t SET v = 'y' WHERE k = {key}")
            modules = traced(copy.catch_up)
    return modules


def journeys(uri: str) -> Iterator[tuple[str, list[str]]]:
    table_workers._SOON = (
        3600.0  # the main stream does not go on beside the copy: what it enters, and when, would be chance
    )
    for arguments in SETUP:
        run(arguments)
    publication = ("-q", "-d", "shop", "-c", "CREATE PUBLICATION p FOR TABLE t WHERE (k > 5)", "-c", "\\dRp+")
    yield "CREATE PUBLICATION to \\dRp+", traced(command, *publication)
    run(SUBSCRIBE)
    yield "A large copy", traced(command, "sync", "s")
    yield "UPDATE by key", traced(command, "-q", "-d", "shop", "-c", "UPDATE t SET v = 'y' WHERE k = 7")
    run(("apply", "s"))
    yield "One changed row", one_changed_row()
    run(("-q", "-d", "shop", "-c", "ALTER PUBLICATION p SET TABLE t", "-c", "UPDATE t SET v = 'z'"))
    run(HERE)
    yield "5 M changes", traced(command, "apply", "s")
    select = "SELECT v, count(*) FROM t GROUP BY v"
    yield "SELECT on Spark", traced(command, "-q", "-d", "copy", "-c", "SET pgrepl.engine = spark", "-c", select)
    if uri:
        import psycopg

        with psycopg.connect(uri, autocommit=True) as server:
            server.execute("CREATE TABLE remote (k int PRIMARY KEY, v text)")
            server.execute("CREATE PUBLICATION p FOR TABLE remote")
            run(tuple(word.format(uri=uri) for word in FROM_SERVER))
            run(("sync", "r"))
            server.execute("INSERT INTO remote VALUES (1, 'x')")
            yield "A change from a server", traced(command, "apply", "r")
            run(("-q", "-d", "mirror", "-c", "DROP SUBSCRIPTION r"))


def main(folder: str, uri: str = "") -> None:
    os.chdir(folder)
    spark.start_in_background = spark.session  # type: ignore[assignment]  # waited for, so that modules have one order
    for name, modules in journeys(uri):
        print("###", name)
        for room, entered in groupby(modules, lambda module: module.rpartition(".")[0]):
            print(room.replace(".", "/") or "cli", *(module.rpartition(".")[2] for module in entered))


if __name__ == "__main__":
    main(*sys.argv[1:])
