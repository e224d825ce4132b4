"""`pgrepl changes` (what publications send, written somewhere) and `pgrepl iceberg export`."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from pgrepl.catalog.session.transaction import reading
from pgrepl.catalog.store.files import first_line
from pgrepl.ground.errors import PgError
from pgrepl.replication.wire.values import wire_style
from pgrepl.shell.commands.subcommand import FAILURE, OK, Seconds, as_lsn, connecting, connection, is_only_with, say
from pgrepl.shell.connection import ConnectFailure

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.ground.errors import Report
    from pgrepl.iceberg.export import Exported, ForeignCatalog
    from pgrepl.iceberg.tables import Described
    from pgrepl.replication.change_writer import ChangeWriter
    from pgrepl.replication.formats.sinks import Sink


_FORMATS = ("debezium", "wal2json", "jsonl", "parquet")
_SIGN_OF_LIFE = 10.0  # seconds
_PAUSE = 1.0  # seconds, so that files are not too small


@click.command("changes", short_help="write what publications send to a file or to standard output")
@click.argument("publication", nargs=-1, required=True)
@click.option("--format", "form", type=click.Choice(_FORMATS), default="jsonl", show_default=True, help="how to write")
@click.option(
    "--from-lsn", type=as_lsn, metavar="LSN", help="where a new slot begins (default: now; 0/0: with the publications)"
)
@click.option("--upto", type=as_lsn, metavar="LSN", help="only transactions that finished at this LSN or before")
@click.option("--slot", metavar="NAME", help="the replication slot (default: changes_PUBLICATION); it is made and kept")
@click.option(
    "-o", "--output", metavar="FILE", help="append to this file; a folder for parquet (default: standard output)"
)
@click.option("--follow", is_flag=True, help="go on until stopped (Ctrl-C, SIGTERM)")
@click.option(
    "--interval", type=Seconds(min=0.01), help="seconds between two writes at least (parquet: 1 if not given)"
)
@click.option("--with-schema", is_flag=True, help="debezium: each event has its schema")
@connecting
def changes_command(
    publication: tuple[str, ...], form: str, from_lsn: int | None, upto: int | None, slot: str | None,
    output: str | None, follow: bool, interval: float | None, with_schema: bool, catalog: str, dbname: str,
    username: str,
) -> int:  # fmt: skip
    """Write the changes that a subscription to PUBLICATIONs would receive: row filters, column lists and operations as
    they were at each change.

    A slot of their own remembers how far they are written. It moves on when the output is safe, so that the next run
    goes on exactly behind it. Drop it with pg_drop_replication_slot() when it is no longer needed: it keeps VACUUM from
    removing what it has yet to send.

    \b
    pgrepl changes orders -d shop --from-lsn 0/0           all changes there are, as JSON lines
    pgrepl changes orders -d shop --format debezium -o orders.json --follow
    pgrepl changes orders -d shop --format parquet -o changes/ --interval 60 --follow
    """
    if with_schema and form != "debezium":
        raise click.UsageError("--with-schema is for --format debezium")
    is_only_with("interval", "follow", follow)
    pause = interval or (_PAUSE if form == "parquet" else 0.0)
    if form == "parquet" and output is None:
        raise click.UsageError("--format parquet needs --output FOLDER")
    from pgrepl.replication.change_writer import ChangeWriter, slot_name

    with connection(catalog, dbname, username) as opened, _stoppable() as (stopped, wake), ExitStack() as stack:
        sink = _sink(opened.session, form, output, with_schema, stack)
        writer = ChangeWriter(opened.session, publication, slot or slot_name(publication), sink)
        stack.callback(writer.close)
        wake.append(writer.wake)
        writer.start(from_lsn)
        while not stopped.is_set():
            writer.round(upto, stopped.is_set)
            if not follow or (upto is not None and writer.position > upto):
                break
            _wait(writer, pause, stopped)
    return OK


def _wait(writer: ChangeWriter, pause: float, stopped: threading.Event) -> None:
    """Wait for so long at least, and then for the next commit; tell meanwhile that the slot is in use."""
    until = time.monotonic() + pause
    while (left := until - time.monotonic()) > 0 and not stopped.wait(min(left, _SIGN_OF_LIFE)):
        writer.beat()
    while not (stopped.is_set() or writer.wait(_SIGN_OF_LIFE, stopped)):
        writer.beat()


def _sink(session: Session, form: str, output: str | None, with_schema: bool, stack: ExitStack) -> Sink:
    from pgrepl.replication.formats.registry import line_writer
    from pgrepl.replication.formats.sinks import LineSink, ParquetSink
    from pgrepl.replication.formats.written import SourceFacts

    if form == "parquet":
        assert output is not None
        folder = Path(output)
        if folder.exists() and not folder.is_dir():
            raise PgError("58P01", f'could not create folder "{output}": File exists')
        return ParquetSink(folder)
    with reading(session):
        style = wire_style(session)
    context = SourceFacts(session.database.name, style, lambda: time.time_ns() // 1000, with_schema)
    file = sys.stdout.buffer if output is None else stack.enter_context(_opened(output))
    return LineSink(line_writer(form, context), file, output or "standard output")


@contextmanager
def _opened(path: str) -> Iterator[BinaryIO]:
    """The file to write on: a regular one to be read, too."""
    try:
        is_other = os.path.exists(path) and not os.path.isfile(path)
        handle = os.open(path, os.O_WRONLY if is_other else os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as problem:
        raise PgError("58P01", f'could not open file "{path}" for writing: {problem.strerror}') from None
    with open(handle, "wb" if is_other else "r+b", buffering=0) as file:
        yield file


@contextmanager
def _stoppable() -> Iterator[tuple[threading.Event, list[Callable[[], None]]]]:
    """An event that SIGTERM and Ctrl-C set, and what they call then: the transaction that is being written is finished.
    A second one breaks off."""
    stopped = threading.Event()
    wake: list[Callable[[], None]] = []

    def stop(number: int, _frame: object) -> None:
        if stopped.is_set():
            raise KeyboardInterrupt
        stopped.set()
        for wake_up in wake:
            wake_up()

    before: dict[int, Any] = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopped, wake
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# --- iceberg ----------------------------------------------------------------------------------------------------------


# errors that stay what they are
_REFUSED = ("28000", "42501")
_LASTING = (*_REFUSED, "42P01", "42P07", "3F000", "22023", "42602", "0A000", "42809")
_LONGEST = 300.0  # seconds between two attempts


@click.group("iceberg")
def iceberg_group() -> None:
    """Let other engines read the tables as Iceberg tables: Spark, DuckDB, pyiceberg, polars and more.

    Nothing is copied: the metadata names the lake's own files. `pgrepl serve` has a catalog for such readers;
    `export` is for those that look into a folder or a bucket.
    """


@iceberg_group.command("export", short_help="write metadata for readers of folders and buckets")
@click.argument("table", nargs=-1)
@click.option("--to", metavar="FOLDER|URI", help="where to, instead of beside the data folder: a folder, or s3://…")
@click.option("--follow", is_flag=True, help="go on until stopped, and export what has changed")
@click.option("--interval", type=Seconds(min=0.1), default=10.0, show_default=True,
              help="seconds between two looks")  # fmt: skip
@click.option("--register", metavar="URI", help="register the tables in the Iceberg REST catalog there")
@click.option("--warehouse", metavar="NAME", help="the warehouse of that catalog")
@click.option("--json", "as_json", is_flag=True, help="as JSON, for programs: a line for each table")
@connecting
def export_command(
    table: tuple[str, ...], to: str | None, follow: bool, interval: float, register: str | None,
    warehouse: str | None, as_json: bool, catalog: str, dbname: str, username: str,
) -> int:  # fmt: skip
    """Write Iceberg metadata of TABLEs, as name or schema.name (default: all of the database that the role may read).

    Each table gets a folder, with `metadata/version-hint.text`. Readers see the table as it was at the export, and one
    that has not changed since is left as it is. VACUUM keeps the files that are named for pgrepl.iceberg_grace (1 hour)
    after an export: run it again after changes, or with --follow. Small files beside the metadata hold rows that are
    inlined in the catalog.

    With --register an Iceberg REST catalog of others, as Polaris and Lakekeeper are, is told of each new version, in
    the namespaces shop and shop.sales. A table there that is another one stays what it is. If the catalog wants a
    token, PGREPL_ICEBERG_TOKEN has it, or PGREPL_ICEBERG_CREDENTIAL has client:secret, for which it gives tokens
    (PGREPL_ICEBERG_OAUTH2_SERVER_URI says where if not there, PGREPL_ICEBERG_SCOPE which).

    Exits with 0; with 1 after an error; with 2 if there is no catalog.

    \b
    pgrepl iceberg export -d shop
    pgrepl iceberg export -d shop orders sales.items --to s3://bucket/iceberg
    pgrepl iceberg export -d shop --follow --interval 60
    pgrepl iceberg export -d shop --to s3://bucket/iceberg --register https://polaris:8181/api/catalog --warehouse w
    duckdb -c "SELECT * FROM iceberg_scan('catalog.db.iceberg/shop/orders')"
    """
    if to == "":
        raise click.UsageError("--to needs a folder or URI")
    is_only_with("interval", "follow", follow)
    is_only_with("warehouse", "register", register is not None)
    exporting = _Exporting(table, to, as_json, only_new=follow, register=register, warehouse=warehouse)
    reached = False
    pause = interval
    while True:
        try:
            with connection(catalog, dbname, username) as opened:
                reached = True
                while True:
                    code = exporting.export(opened.session)
                    pause = interval
                    if not follow:
                        return code
                    time.sleep(interval)
        except (PgError, ConnectFailure) as problem:
            lasts = exporting.is_lasting(problem) if isinstance(problem, PgError) else not reached
            if not follow or lasts:
                raise
            sys.stderr.write(f"pgrepl: {first_line(problem)}; trying again in {pause:g} s\n")
            time.sleep(pause)
            pause = min(2 * pause, max(interval, _LONGEST))
        except KeyboardInterrupt:
            if not follow:
                raise
            return OK


class _Exporting:
    """The exports of one command."""

    def __init__(
        self, names: Sequence[str], to: str | None, as_json: bool, *, only_new: bool, register: str | None,
        warehouse: str | None,
    ) -> None:  # fmt: skip
        self._names, self._to, self._as_json, self._only_new = names, to, as_json, only_new
        self._register, self._warehouse = register, warehouse
        self._catalog: ForeignCatalog | None = None
        self._registered: dict[str, Exported] = {}
        self._said: list[Report] = []  # errors of the last time

    def export(self, session: Session) -> int:
        from pgrepl.iceberg.export import ForeignCatalog, export_tables

        if self._register is not None and self._catalog is None:
            self._catalog = ForeignCatalog(self._register, self._warehouse)
        count = 0

        def done(table: Described, exported: Exported) -> None:
            nonlocal count
            count += 1
            is_registered = self._tell_catalog(table, exported)
            if exported.is_new or is_registered or not self._only_new:
                self._tell(table.full_name, exported, is_registered)

        errors = export_tables(session, self._names, self._to, done)
        for error in errors:
            if error.report not in self._said:
                say(error.report)
        self._said = [error.report for error in errors]
        if not count and not errors and not self._only_new:
            sys.stderr.write("there are no tables to export\n")
        return FAILURE if errors else OK

    def is_lasting(self, problem: PgError) -> bool:
        """A token that the foreign catalog took may have ended: it may take another one, or the same again."""
        return problem.sqlstate in _LASTING and not (self._registered and problem.sqlstate in _REFUSED)

    def _tell_catalog(self, table: Described, exported: Exported) -> bool:
        """Is the catalog told something new?"""
        known = exported._replace(is_new=False)
        if self._catalog is None or self._registered.get(table.full_name) == known:
            return False
        is_new = self._catalog.register(table, exported.metadata)
        self._registered[table.full_name] = known
        return is_new

    def _tell(self, name: str, done: Exported, is_registered: bool) -> None:
        if self._as_json:
            told = {"table": name, "location": done.location, "version": done.version, "is_new": done.is_new}
            sys.stdout.write(
                json.dumps(told if self._catalog is None else {**told, "registered": is_registered}) + "\n"
            )
        else:
            what = "exported" if done.is_new else "unchanged"
            also = ", registered" if is_registered else ""
            sys.stdout.write(f"{what} {name} to {done.location}: version {done.version}{also}\n")
        sys.stdout.flush()
