"""`pgrepl changes`: what publications send, written to a file or to standard output."""

from __future__ import annotations

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

from pgrepl.errors import PgError
from pgrepl.shell.subcommand import OK, Seconds, as_lsn, connecting, connection, is_only_with, run

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.replication.decoding.change_writer import ChangeWriter
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
    from pgrepl.replication.decoding.change_writer import ChangeWriter, slot_name

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
    from pgrepl.catalog.transaction import reading
    from pgrepl.replication.formats.sinks import LineSink, ParquetSink
    from pgrepl.replication.formats.writers import line_writer
    from pgrepl.replication.formats.written import SourceFacts
    from pgrepl.replication.wire.text import wire_style

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
        for each in wake:
            each()

    before: dict[int, Any] = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopped, wake
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def changes(arguments: Sequence[str]) -> int:
    return run(changes_command, arguments)
