"""The choice of an engine for a statement, a copy or a batch of changes. It is made here, once, and carried along.

| engine | the work is done |
| --- | --- |
| local | in this process, row by row as PostgreSQL does |
| columns | in this process, by whole columns |
| spark | by Spark jobs |

`pgrepl.engine` names one for everything; `auto` decides by the rows that are left once files are skipped:

| work | chosen by |
| --- | --- |
| a statement | `choose`, `choose_to_write` (rows of a query), `choose_to_change`; `is_worth_a_look` counts first |
| COPY | `choose_to_load`, `choose_copy_to` |
| an initial copy | `choose_copy`: `choose_kernels` from a lake, `choose_direct` from a server |
| a batch of changes | `choose_batch`, `choose_of_batch` (one table of it), `choose_parts` (larger than memory) |
| changes that are sent, files of changes that are read | `choose_sent`, `choose_files` |
| hashes of `pgrepl compare`, a job of Spark SQL | `choose_hashes`, `choose_job` |

A batch goes by columns from `LEAST_CHANGES` on: by rows a change costs 45 microseconds, by columns one, and 5
milliseconds for each table. An engine that cannot do the work as PostgreSQL does raises `Declined`, and it is done
row by row.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING

from pgrepl.catalog.session import parameters
from pgrepl.catalog.session.statistics import ENGINE, count
from pgrepl.ground import interrupts
from pgrepl.ground.errors import Declined
from pgrepl.ground.frozen import frozen

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.lake.read.files import Extent

COLD_WRITES = 5  # times `pgrepl.local_rows` that a statement reads and writes here while Spark has not started
WARM, COLD = 3, 10  # times `pgrepl.local_rows` from which a job pays, with Spark started and not started
WHOLE_COLUMNS = 1000  # times `pgrepl.local_rows` that this process does by whole columns
WORTH_A_KERNEL = 5000  # rows of a lake's table
WORTH_A_FILE = 1 << 20  # bytes of a server's table
BYTES_IN_ROW = 40  # of such a table, about
FEW_LINES = 1000  # of COPY TO
_NAMES = ("pgrepl.engine", "pgrepl.spark_rows")
LEAST_CHANGES = 1000  # of a batch that is applied by columns, where `pgrepl.local_rows` is as it comes
CHANGES_OF_TABLE = 150  # that pay for a table by columns, likewise


class Engine(str, Enum):
    LOCAL = "local"
    COLUMNS = "columns"
    SPARK = "spark"


@frozen
class Choice:
    """The chosen engine and why. `rows` and `bytes` are the size of the input, as far as it had to be known."""

    engine: Engine
    reason: str
    rows: int = 0
    bytes: int = 0
    kernels: bool = False  # kernels over Arrow do the work, in this process or as Spark tasks
    unfit: str = ""  # why kernels cannot do work that is large enough for them

    @property
    def on_spark(self) -> bool:
        return self.engine is Engine.SPARK

    def __str__(self) -> str:
        """As EXPLAIN and a dry run show it."""
        unfit = f"; not by columns: {self.unfit}" if self.unfit else ""
        return f"{self.engine.value} ({self.reason}{unfit})"


def check_utf8(session: Session) -> None:
    """Declined in a database of another encoding, where each text must be looked at."""
    encoding = session.settings.get("server_encoding")
    if encoding != "UTF8":
        raise Declined(f"encoding {encoding}")


# --- what the settings say ------------------------------------------------------------------------------------------


def _setting(session: Session) -> str:
    return session.settings.get("pgrepl.engine")


def never_spark(session: Session) -> bool:
    """Does the user want everything done in this process?"""
    return _setting(session) == Engine.LOCAL.value


def require_spark(session: Session, work: str) -> None:
    """Declined if only Spark can do the work, and the user wants everything done in this process."""
    if never_spark(session):
        raise Declined(work)


def inherit_engine(worker: Session, there: Session) -> None:
    """Have the session of a publisher's database choose as the worker does whose process reads it, unless the
    connection string has set something else."""
    for name in _NAMES:
        text = worker.settings.get(name)
        if there.settings.get(name) != text and there.settings.source(name) != "client":
            there.settings.set_default(name, text, complain=False, source="override")


def _is_auto(session: Session) -> bool:
    return _setting(session) == "auto"


def local_rows(session: Session) -> int:
    """The number of rows up to which `auto` stays in this process."""
    return int(session.settings.value("pgrepl.local_rows"))


def _spark_rows(session: Session) -> int:
    """The number of rows up to which `auto` runs kernels in this process."""
    return int(session.settings.value("pgrepl.spark_rows"))


# --- statements -----------------------------------------------------------------------------------------------------


def choose(
    session: Session,
    extent: Callable[[], Extent],
    *,
    unfit: str = "",
    best_here: Callable[[], str] = str,
    by_columns: Callable[[], bool] | None = None,
    answered: Callable[[], int] = int,
    cold: int = 1,
    limit: int | None = None,
    if_large: bool = False,
) -> Choice:
    """The engine of a statement, or of a part that is carried out by itself.

    `unfit`: why Spark cannot do it, whatever the setting. `best_here`: why it is done in this process though it is
    large, unless the setting is spark. `by_columns`: can whole columns do it? `answered`: so many rows need not be read
    by them then, as statistics answer. `cold`: so many times the limit is done here while Spark has not started.
    `limit`: in place of `pgrepl.local_rows`. `if_large`: few rows stay in this process, even if the setting is spark.
    """
    wanted = _setting(session)
    if unfit or (wanted == Engine.LOCAL.value and by_columns is None):
        return Choice(Engine.LOCAL, unfit or _by_setting(wanted))
    cost = extent()
    if wanted == Engine.SPARK.value and not if_large:
        return Choice(Engine.SPARK, _by_setting(wanted), cost.rows, cost.bytes)
    limit = local_rows(session) if limit is None else limit
    large = cost.rows > limit
    known = answered() if large else 0
    fits = large and (wanted == Engine.LOCAL.value or cost.rows - known <= limit * WHOLE_COLUMNS)
    if by_columns is not None and fits and by_columns():
        reason = f"{cost.rows} rows, {known} of them by statistics" if known else _by_rows(cost.rows, limit)
        return Choice(Engine.COLUMNS, reason, cost.rows, cost.bytes)
    if wanted == Engine.LOCAL.value:
        return Choice(Engine.LOCAL, _by_setting(wanted), cost.rows, cost.bytes)
    if large and cost.rows <= limit * cold and not is_warm():
        return Choice(Engine.LOCAL, f"{cost.rows} rows, and Spark has not started", cost.rows, cost.bytes)
    here = best_here() if large else ""
    engine = Engine.SPARK if large and not here else Engine.LOCAL
    return Choice(engine, here or _by_rows(cost.rows, limit), cost.rows, cost.bytes)


def choose_to_write(session: Session, choice: Choice, written: int, extent: Callable[[], Extent]) -> Choice:
    """The engine of a query whose rows are written. `choice` is that of the query alone: it stands if it is Spark or
    the setting says so, and if few rows are read and `written`. Otherwise `extent` counts what is read and written."""
    few = choice.rows > 0 and max(choice.rows, written) <= local_rows(session)
    if choice.on_spark or few or not _is_auto(session):
        return choice
    return choose(session, extent, cold=COLD_WRITES)


def choose_to_change(
    session: Session,
    extent: Callable[[], Extent],
    check: Callable[[], None] | None,
    without_kernels: Callable[[], Choice],
) -> Choice:
    """The engine of a statement that changes rows. `check` raises Declined if kernels over Arrow cannot do it; None:
    they have declined, or are not asked. `without_kernels` then chooses between Spark SQL and row by row."""
    unfit = ""
    if check is not None:
        try:
            return _choose_with_kernels(session, extent, check)
        except Declined as reason:
            unfit = str(reason)
    if never_spark(session):
        return Choice(Engine.LOCAL, _by_setting(Engine.LOCAL.value), unfit=unfit)
    return replace(without_kernels(), unfit=unfit)


def _choose_with_kernels(session: Session, extent: Callable[[], Extent], check: Callable[[], None]) -> Choice:
    wanted, cost = _setting(session), extent()
    limit = local_rows(session)
    if cost.rows <= limit and wanted != Engine.SPARK.value:
        return Choice(Engine.LOCAL, _by_rows(cost.rows, limit), cost.rows, cost.bytes)
    check()
    return Choice(*_of_kernels(session, cost.rows), cost.rows, cost.bytes, kernels=True)


def choose_to_load(
    session: Session, extent: Callable[[int], Extent], unfit: Callable[[], str], *, by_kernels: bool, in_parts: bool
) -> Choice:
    """The engine of COPY FROM. `extent` counts up to so many rows. `by_kernels`: kernels can read them, and have not
    declined; `in_parts`: so can tasks of Spark. `unfit`: why Spark SQL cannot do it."""
    if by_kernels:
        most = sys.maxsize if in_parts else _spark_rows(session)
        choice = choose_kernels(session, extent(most).rows)
        if choice.engine is not Engine.LOCAL and choice.rows <= most:
            return choice
    return choose(session, lambda: extent(local_rows(session)), unfit=unfit())


def choose_copy_to(session: Session, extent: Callable[[], Extent]) -> Choice:
    """The engine of COPY TO of columns of one table: by columns, if they are worth it, else as any query."""
    wanted = _setting(session)
    if wanted == Engine.SPARK.value:
        return Choice(Engine.SPARK, _by_setting(wanted))
    cost = extent()
    engine = Engine.COLUMNS if cost.rows > FEW_LINES else Engine.LOCAL
    return Choice(engine, _by_rows(cost.rows, FEW_LINES), cost.rows, cost.bytes)


def is_worth_a_look(session: Session, rows: int, cold: int = 1) -> bool:
    """Does it pay to count by whole columns, which is quick, how many of the rows are left, before Spark is chosen?"""
    limit = local_rows(session)
    return (
        _setting(session) != Engine.SPARK.value and limit * (1 if is_warm() else cold) < rows <= limit * WHOLE_COLUMNS
    )


def is_warm() -> bool:
    """Can a Spark job begin at once?"""
    return interrupts.started_anywhere() and not interrupts.is_starting()


def _by_setting(wanted: str) -> str:
    return f'pgrepl.engine is "{wanted}"'


def _by_rows(count: int, limit: int, what: str = "rows") -> str:
    return f"{count} {what}, {'more than' if count > limit else 'not more than'} {limit}"


# --- copies and batches of changes ----------------------------------------------------------------------------------


def least_changes(session: Session, tables: int = 1) -> int:
    """The number of changes of so many tables from which a batch is applied by columns."""
    return _least(session, _few_changes(session, max(LEAST_CHANGES, CHANGES_OF_TABLE * tables)))


def _few_changes(session: Session, usual: int) -> int:
    """So many changes, or as many more or less as the user has set `pgrepl.local_rows` higher or lower."""
    rows = local_rows(session)
    by_default = parameters.find("pgrepl.local_rows")
    assert by_default is not None
    return min(rows, usual * rows // int(by_default.default))


def _least(session: Session, limit: int) -> int:
    """More than `limit`, unless the setting is spark."""
    return 1 if _setting(session) == Engine.SPARK.value else limit + 1


def choose_batch(session: Session, rows: int, tables: int = 1) -> Choice:
    """The engine of a batch of changes of so many tables: local or columns."""
    return _from(session, least_changes(session, tables), rows, Engine.COLUMNS, "changes")


def choose_of_batch(session: Session, batch: Choice, rows: int) -> Choice:
    """The engine of so many changes of one table in a batch."""
    is_large = batch.engine is Engine.COLUMNS and rows > changes_held(session, rows)
    return choose_parts(session, rows) if is_large else batch


def is_worth_columns(session: Session, rows: int, tables: int) -> bool:
    """Do the changes of a batch that is large enough pay for its tables, too? One costs no more than to read the
    changes once more, row by row."""
    wanted = _setting(session)
    return tables == 1 or wanted == Engine.SPARK.value or rows > _few_changes(session, CHANGES_OF_TABLE * tables)


def choose_sent(session: Session, rows: int) -> Choice:
    """The engine that sends changes to another server: local (message by message), or columns."""
    return _from(session, _least(session, local_rows(session)), rows, Engine.COLUMNS, "changes")


def choose_direct(session: Session, size: int) -> Choice:
    """The engine of a copy from a server whose rows go into files by columns as they arrive. This process reads them,
    or, if they are many, the executors of a cluster."""
    rows = size // BYTES_IN_ROW
    if size < WORTH_A_FILE:
        return Choice(Engine.LOCAL, f"{size} bytes, less than {WORTH_A_FILE}", rows, size)
    if _setting(session) == Engine.SPARK.value:
        return Choice(Engine.SPARK, _by_setting(Engine.SPARK.value), rows, size, kernels=True)
    limit = _spark_rows(session)
    if _is_auto(session) and rows > limit and has_cluster():
        return Choice(Engine.SPARK, _by_rows(rows, limit), rows, size, kernels=True)
    return Choice(Engine.COLUMNS, f"{size} bytes, not less than {WORTH_A_FILE}", rows, size, kernels=True)


def choose_kernels(session: Session, rows: int) -> Choice:
    """The engine of a copy of about so many rows of a lake: row by row if they are few, else by kernels over Arrow, in
    this process or, from `pgrepl.spark_rows` rows on, as Spark tasks."""
    least = 1 if _setting(session) == Engine.SPARK.value else WORTH_A_KERNEL
    if rows < least:
        return Choice(Engine.LOCAL, _by_rows(rows, least - 1), rows)
    return Choice(*_of_kernels(session, rows), rows, kernels=True)


def _of_kernels(session: Session, rows: int, what: str = "rows") -> tuple[Engine, str]:
    """The engine that runs kernels over so many rows, and why."""
    wanted, limit = _setting(session), _spark_rows(session)
    if wanted != "auto":
        return Engine.SPARK if wanted == Engine.SPARK.value else Engine.COLUMNS, _by_setting(wanted)
    return Engine.SPARK if rows > limit else Engine.COLUMNS, _by_rows(rows, limit, what)


def choose_hashes(session: Session, rows: int) -> Choice:
    """What hashes so many rows of a lake, which costs less than to start a JVM here: Spark only on a cluster."""
    choice = choose_kernels(session, rows)
    if choice.engine is Engine.SPARK and _is_auto(session) and not has_cluster():
        return replace(choice, engine=Engine.COLUMNS)
    return choice


def choose_parts(session: Session, changes: int) -> Choice:
    """The engine of a batch that is divided into parts (`changes_held`): threads of this process, or Spark tasks, if
    there are more than `pgrepl.spark_rows` changes."""
    return Choice(*_of_kernels(session, changes, "changes"), changes)


def changes_held(session: Session, room: int) -> int:
    """The number of changes that are held in memory together, which has room for so many. Batches that are larger are
    divided into parts, as all are that Spark applies because they are large."""
    return room if never_spark(session) else min(room, max(_spark_rows(session), LEAST_CHANGES))


def choose_files(session: Session, size: int, changes: int) -> Choice:
    """The engine that reads files of changes of so many bytes by columns: as `choose_parts`, if they are more than
    are held in memory."""
    room = int(session.settings.value("logical_decoding_work_mem")) << 10
    held = changes_held(session, changes if size <= room else 0)
    if changes <= held:
        return Choice(Engine.COLUMNS, _by_rows(size, room, "bytes"), changes, size)
    return choose_parts(session, changes)


def has_cluster() -> bool:
    """Does Spark run elsewhere than on this machine?"""
    from pgrepl.engine.spark import is_elsewhere

    return is_elsewhere()


def choose_copy(session: Session, rows: int, *, size: int | None = None) -> Choice:
    """The engine of an initial copy of about so many rows: kernels, or Spark SQL, if the rows are too few for kernels
    and worth a job, as the settings say. `size`: a server sends them, in so many bytes. When kernels decline,
    `choose_job` says whether Spark SQL is worth its job."""
    choice = choose_kernels(session, rows) if size is None else choose_direct(session, size)
    if choice.engine is not Engine.LOCAL:
        return choice
    job = choose_job(session, rows)
    return choice if size is None and not job.on_spark else job


def choose_job(session: Session, rows: int) -> Choice:
    """Spark, if so many rows are worth a job, else local."""
    if never_spark(session):
        return Choice(Engine.LOCAL, _by_setting(Engine.LOCAL.value), rows)
    least = _least(session, local_rows(session) * (WARM if interrupts.started_anywhere() else COLD))
    return _from(session, least, rows, Engine.SPARK)


def _from(session: Session, least: int, rows: int, engine: Engine, what: str = "rows") -> Choice:
    wanted = _setting(session)
    reason = _by_setting(wanted) if wanted == Engine.SPARK.value else _by_rows(rows, least - 1, what)
    return Choice(engine if rows >= least else Engine.LOCAL, reason, rows)


# --- what came of it ------------------------------------------------------------------------------------------------


def done(session: Session, work: str, engine: Engine) -> None:
    """Count work that was done by columns or by Spark."""
    count(session, ENGINE, work, **{engine.value: 1})


def declined(session: Session, work: str, reason: object, message: str) -> None:
    """Count work that was declined and is done row by row; a DEBUG message has `message` and the reason."""
    count(session, ENGINE, work, **{f"{_DECLINED}{reason}": 1})
    session.notice("DEBUG1", f"{message}: {reason}")


_DECLINED = "declined: "


def counted(name: str) -> tuple[str, str | None]:
    """The engine that did the work, and why it was not another, from the name of a counter."""
    reason = name.removeprefix(_DECLINED)
    return (name, None) if reason == name else (Engine.LOCAL.value, reason)
