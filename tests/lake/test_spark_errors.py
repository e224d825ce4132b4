"""What goes wrong in Spark reads as PostgreSQL's errors, and names what is to blame."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from pgrepl.engine import scan_spark
from pgrepl.engine import spark as lake_spark
from pgrepl.engine.spark_errors import from_spark, not_started
from pgrepl.engine.spark_options import SparkOptions
from pgrepl.engine.spark_types import spark_type
from pgrepl.ground import interrupts as jobs
from pgrepl.ground.errors import PgError, marked, unmarked
from pgrepl.internals import py4j
from pgrepl.internals.pyspark import active_context, arrow_function, check_types
from tests.harness.dose import dose
from tests.harness.programs import eventually
from tests.lake.conftest import Lake
from tests.lake.spark_rows import nothing_inlined

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def error_of(action: Callable[[], Any]) -> PgError:
    with pytest.raises(PgError) as raised, lake_spark.pg_errors():
        action()
    return raised.value


def told(error: PgError | None) -> tuple[str, str]:
    assert error is not None
    return error.sqlstate, error.message


def test_an_error_survives_spark_as_text() -> None:
    error = PgError("23514", 'a "message"\nü', detail="d", hint="h", constraint="c", location=3)
    found = unmarked(f"Error: {marked(error)} at line 1")
    assert found is not None and found.report == error.report
    assert unmarked('PGREPL{ no error, PGREPL{"sqlstate": 1} ' + marked(error)[:-5]) is None
    assert unmarked("something else") is None


def test_a_place_that_does_not_answer_is_named() -> None:
    class Lost(Exception):
        __module__ = "py4j.protocol"

    lost = Lost("Application has been killed. Reason: All masters are unresponsive! Giving up.")
    refused = Lost('status = StatusCode.UNAVAILABLE details = "failed to connect to all addresses"')
    found = not_started(SparkOptions("spark://host:7077"), lost)
    assert told(found) == ("08001", 'could not connect to Spark at "spark://host:7077"')
    found = not_started(SparkOptions(remote="sc://host/;token=secret"), refused)
    assert told(found) == ("08001", 'could not connect to Spark at "sc://host/"')
    assert told(not_started(SparkOptions("local[2]"), lost))[0] == "58000"
    assert told(not_started(SparkOptions("spark://host:7077"), Lost("no such class")))[0] == "XX000"
    assert not_started(SparkOptions("spark://host:7077"), ValueError("x")) is None


def test_executors_that_fail_at_once_are_no_missing_connection() -> None:
    class Lost(Exception):
        __module__ = "py4j.protocol"

    given_up = "has given the application up: its executors fail as soon as they are started"
    with socket.create_server(("127.0.0.1", 0)) as master:
        place = f"spark://nosuch.invalid:1,127.0.0.1:{master.getsockname()[1]}"
        stopped = Lost("java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.")
        found = not_started(SparkOptions(place), stopped)
        assert told(found) == ("58000", f'Spark at "{place}" {given_up}')
        assert found is not None and "maxExecutorRetries" in str(found.report.detail)
        assert "stderr in work/app-…/ on the workers" in str(found.report.hint)
    assert told(not_started(SparkOptions(place), stopped)) == ("08001", f'could not connect to Spark at "{place}"')
    removed = Lost("Job aborted: SparkContext was shut down: Master removed our application: FAILED")
    assert told(not_started(SparkOptions("spark://h:1"), removed)) == ("58000", f'Spark at "spark://h:1" {given_up}')
    assert told(from_spark(removed)) == ("58000", f"Spark {given_up}")


def of_bigint() -> list[pa.DataType | None]:
    return [None]


def test_errors_raised_in_sql_and_in_python(spark: SparkSession) -> None:
    text = marked(PgError("22P02", 'invalid input syntax for type integer: "x"', detail="ü"))

    def fail(_: pa.Array) -> pa.Array:
        raise ValueError(text)

    in_sql = error_of(lambda: spark.sql("SELECT raise_error(:m)", args={"m": text}).collect())
    in_python = error_of(lambda: spark.range(3).select(arrow_function(fail, "bigint", of_bigint)("id")).collect())
    assert told(in_sql) == told(in_python) == ("22P02", 'invalid input syntax for type integer: "x"')
    assert in_sql.report.detail == in_python.report.detail == "ü"


def test_a_python_without_pgrepl_is_told(spark: SparkSession) -> None:
    def absent(_: pa.Array) -> pa.Array:
        raise ModuleNotFoundError("No module named 'pgrepl'")

    def fails(_: pa.Array) -> pa.Array:
        raise ValueError("what went wrong")

    error = error_of(lambda: spark.range(3).select(arrow_function(absent, "bigint", of_bigint)("id")).collect())
    assert told(error) == ("58000", "Spark's Python has no module pgrepl")
    error = error_of(lambda: spark.range(3).select(arrow_function(fails, "bigint", of_bigint)("id")).collect())
    assert told(error) == ("XX000", "Spark failed: ValueError: what went wrong")


def test_an_unknown_complaint_is_one_sentence(spark: SparkSession) -> None:
    state, message = told(error_of(lambda: spark.sql("SELECT nothing FROM range(1)").collect()))
    assert state == "XX000" and message.startswith("Spark failed: [UNRESOLVED_COLUMN") and "\n" not in message
    assert from_spark(ValueError("not of Spark")) is None


def test_a_spark_without_the_type_time_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.sql import types

    monkeypatch.delattr(types, "TimeType", raising=False)
    with pytest.raises(PgError, match="type time is not supported on Spark before version") as raised:
        spark_type("STRUCT<a: ARRAY<TIME(6)>>")
    assert raised.value.sqlstate == "0A000"


def test_a_spark_without_functions_of_columns_gives_no_dates_to_python(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.sql.pandas import functions

    if hasattr(functions, "arrow_udf"):
        check_types("DATE", lambda: [pa.date32()])
    monkeypatch.delattr(functions, "arrow_udf", raising=False)
    check_types("BIGINT", lambda: [pa.int64(), None])
    refused: list[tuple[str, list[pa.DataType | None]]]
    refused = [("DATE", []), ("INT", [pa.timestamp("us")]), ("INT", [pa.list_(pa.date32())]), ("TIME(6)", [])]
    for result, types in refused:
        with pytest.raises(PgError, match="not supported on Spark before version") as raised:
            check_types(result, lambda types=types: types)
        assert raised.value.sqlstate == "0A000"


class Complaint(Exception):
    """As one of pyspark's."""


Complaint.__module__ = "pyspark.errors"


@pytest.mark.parametrize(
    ("text", "state", "message"),
    [
        ("IOException: No space left on device", "53100", "could not write to the lake: No space left on device"),
        ("Caused by: java.lang.OutOfMemoryError: Java heap space", "53200", "out of memory"),
        ("… is bigger than spark.driver.maxResultSize (1 MiB)", "53200", "the result is too large to be fetched"),
        ("Job 3 cancelled as part of cancellation of all jobs", "57014", "canceling statement due to user request"),
        ("ExecutorLostFailure (executor 1 exited)", "58000", "Spark ended unexpectedly while the statement ran"),
        ("Mkdirs failed to create file:/a b (exists=false, cwd=file:/)", "58030", 'could not create directory "/a b"'),
        (
            "[PATH_NOT_FOUND] Path does not exist: file:/a b/c%20d.parquet. SQLSTATE: 42K03",
            "58P01",
            'could not open file "/a b/c d.parquet": No such file or directory',
        ),
    ],
)  # fmt: skip
def test_what_spark_says(text: str, state: str, message: str) -> None:
    assert told(from_spark(Complaint(text))) == (state, message)


@pytest.fixture
def files(lake: Lake, spark: SparkSession) -> tuple[Lake, list[Path]]:
    nothing_inlined(lake)
    lake.sql("CREATE TABLE t (a int)")
    for start in (0, 1000):
        lake.sql(f"INSERT INTO t SELECT generate_series({start}, {start + 499})")
    location = Path(lake.table("t").location)
    return lake, sorted(location.glob("*.parquet"))


def count(lake: Lake) -> Any:
    table = lake.table("t")
    with lake.statement():
        return scan_spark.frame(lake.session, table, [1]).filter("c1 >= 0").count()


@pytest.mark.parametrize("damage", dose(["missing", "empty", "cut", "garbage"], 2))
def test_a_file_that_is_missing_or_damaged_is_named(files: tuple[Lake, list[Path]], damage: str) -> None:
    lake, (path, _) = files
    assert count(lake) == 1000
    size = path.stat().st_size
    if damage == "missing":
        path.unlink()
    elif damage == "garbage":
        path.write_bytes(b"PAR1" + b"x" * (size - 12) + b"\x40\0\0\0PAR1")
    else:
        os.truncate(path, 0 if damage == "empty" else size - 10)
    state, message = told(error_of(lambda: count(lake)))
    if damage == "missing":
        assert (state, message) == ("58P01", f'could not open file "{path}": No such file or directory')
    else:
        assert (state, message) == ("XX001", f'could not read file "{path}"')


# --- Ctrl-C ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def interrupts() -> Iterator[None]:
    """As the shell handles them."""

    def interrupted(_signal: int, _frame: FrameType | None) -> None:
        if not jobs.cancel():
            raise PgError("57014", "canceling statement due to user request")

    before = signal.signal(signal.SIGINT, interrupted)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("fetch", dose(["count", "toArrow", "collect"], 3))
def test_an_interrupt_cancels_the_running_jobs(spark: SparkSession, interrupts: None, fetch: str) -> None:
    endless = spark.range(10**13).filter("sha2(string(id), 256) = 'x'")
    threading.Timer(1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    assert told(error_of(getattr(endless, fetch))) == ("57014", "canceling statement due to user request")
    assert spark.range(7).count() == 7


@pytest.mark.slow
def test_what_another_thread_begins_after_an_interrupt_is_not_cancelled(
    spark: SparkSession, interrupts: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(py4j, "PAUSE", 0.7)  # the next job is under way when the canceller looks again
    threading.Timer(1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    assert told(error_of(spark.range(10**13).filter("sha2(string(id), 256) = 'x'").count))[0] == "57014"
    with lake_spark.threads(1) as pool:
        later = pool.submit(spark.range(6 * 10**6).filter("sha2(string(id), 256) = 'x'").count)
        assert later.result() == 0


@pytest.mark.slow
def test_what_begins_after_an_interrupt_is_not_cancelled(
    spark: SparkSession, interrupts: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late() -> Any:
        time.sleep(0.5)
        return active_context()

    monkeypatch.setattr(py4j, "active_context", late)
    threading.Timer(1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    endless = spark.range(10**13).filter("sha2(string(id), 256) = 'x'")
    assert told(error_of(endless.toArrow))[0] == "57014"  # it waits for rows, in no call
    assert spark.range(10**6).filter("sha2(string(id), 256) = 'x'").count() == 0


def test_the_jobs_of_one_worker_are_cancelled_alone(spark: SparkSession) -> None:
    """Also those that it has given to threads of its own."""
    ended: dict[str, tuple[str, str]] = {}

    def work(name: str) -> None:
        lake_spark.tag_jobs(name)
        endless = lake_spark.session().range(10**13).filter("sha2(string(id), 256) = 'x'")
        with lake_spark.threads(1) as pool:
            ended[name] = told(pool.submit(lambda: error_of(endless.count)).result())

    workers = {name: threading.Thread(target=work, args=(name,)) for name in ("one", "other")}
    for worker in workers.values():
        worker.start()
    for name, others in (("one", ["other"]), ("other", [])):

        def is_cancelled(name: str = name) -> bool:
            lake_spark.cancel_tagged(name)
            workers[name].join(0.3)
            return not workers[name].is_alive()

        eventually(is_cancelled)
        assert ended.pop(name) == ("57014", "canceling statement due to user request")
        assert [each for each, worker in workers.items() if worker.is_alive()] == others
    assert spark.range(7).count() == 7
