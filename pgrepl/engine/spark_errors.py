"""What Spark says: its errors as PgErrors; its running jobs, how far they are, and where its UI is.

An exception of Spark is long and repeats itself; the first line that matters names the cause. An error of the statement
itself crosses Spark as a mark in the text (errors.marked); others are known by their text, which is the same over py4j
and over Spark Connect.

Only the process that has the JVM can tell of its jobs. A server's host is asked over the channel by which others ask
for Spark; so the answer is a line of JSON.
"""

from __future__ import annotations

import json
import re
import socket
from dataclasses import asdict
from typing import Any
from urllib.parse import unquote

from pgrepl.engine.spark_options import SparkOptions, is_elsewhere
from pgrepl.ground import interrupts
from pgrepl.ground.errors import PgError, unmarked
from pgrepl.ground.frozen import frozen
from pgrepl.internals import pyspark as internals
from pgrepl.internals.pyspark import stack_traces

_PATIENCE = 3.0  # seconds, for a master that may be far
_FOREIGN = ("pyspark.", "py4j.", "grpc.")

_CANCELLED = re.compile(r"Job \d+ cancelled|cancelled as part of cancellation|OPERATION_CANCELED|\[JOB_CANCELLED")
_DISK_FULL = re.compile(r"No space left on device|Disk quota exceeded|There is not enough space on the disk")
_MEMORY = re.compile(r"java\.lang\.OutOfMemoryError|OutOfMemoryError:|UNABLE_TO_ACQUIRE_MEMORY|SparkOutOfMemoryError")
_RESULT_SIZE = re.compile(r"is bigger than (local )?spark\.driver\.maxResultSize|bigger than local maxResultSize")
_WORKER_LOST = re.compile(r"Python worker exited unexpectedly|Python worker failed to connect back")
_NO_MODULE = re.compile(r"ModuleNotFoundError: No module named '(?P<module>pgrepl|pyarrow|numpy)\b")
_NOT_IMPORTED = re.compile(r"PGREPL_IMPORT (?P<reason>[^\n]+)")
_OTHER_PYTHON = re.compile(
    r"PYTHON_VERSION_MISMATCH\][^\n]*?version: \(?(?P<there>[\d., ]+?)\)? than[^\n]*?: \(?(?P<here>[\d., ]+\d)"
)
_IN_PYTHON = re.compile(r"^Traceback \(most recent call last\):\n(?:[ \t][^\n]*\n)+(?P<cause>\w[^\n]*)", re.MULTILINE)
_GIVEN_UP = re.compile(r"Master removed our application: FAILED")
_LOST = re.compile(
    r"ExecutorLostFailure|SparkContext was shut down|Cannot call methods on a stopped SparkContext|JVM is not running"
    r"|Answer from Java side is empty|Error while sending or receiving|Error while obtaining a new communication"
    r"|Connection refused|StatusCode\.UNAVAILABLE|INVALID_HANDLE\.SESSION|All masters are unresponsive"
    r"|An error occurred while calling [\w.]+$"
)
_PATH = r"(?P<path>(?:[a-z][a-z0-9]*:/|/)[^\n]*?)"
_MISSING_FILE = re.compile(
    r"(?:FileNotFoundException:\s*(?:File\s+)?|Path does not exist:\s*"
    r"|FAILED_READ_FILE\.FILE_NOT_EXIST\][^\n]*?Encountered error while reading file\s+)"
    + _PATH
    + r"(?:\.?\s+(?:does not exist|File does not exist|SQLSTATE)|\.?(?:\n|$))"
)
_BAD_FILE = re.compile(
    r"(?:FAILED_READ_FILE[.\w]*\][^\n]*?Encountered error while reading file\s+|Could not read footer for file:\s*"
    r"(?:FileStatus\{path=)?|CANNOT_READ_FILE_FOOTER\][^\n]*?file:\s*)"
    + _PATH
    + r"(?:\.?\s+SQLSTATE|[;,}]|\.?(?:\n|$))"
)
_NO_FOLDER = re.compile(r"Mkdirs failed to create " + _PATH + r"(?: \(exists=|\.?(?:\n|$))")
_DENIED = re.compile(r"AccessControlException|Permission denied|AccessDeniedException")


def from_spark(problem: BaseException) -> PgError | None:
    """The PgError for an exception of Spark; an unknown cause is XX000 with the first line of the text. None: the
    exception is not Spark's."""
    if isinstance(problem, PgError):
        return problem
    texts = list(_texts(problem))
    if not texts:
        return None
    text = "\n".join(texts)
    return unmarked(text) or _arithmetic(text) or _known(text) or PgError("XX000", f"Spark failed: {_first_line(text)}")


def not_started(wanted: SparkOptions, problem: BaseException) -> PgError | None:
    """The error of a session that could not be made: a place that does not answer is named."""
    error = from_spark(problem)
    place = wanted.remote or wanted.master
    if error is None or error is problem or place is None or not (wanted.remote or is_elsewhere(place)):
        return error
    text = "\n".join(_texts(problem))
    if not _LOST.search(text):
        return error
    place = place.partition(";")[0]  # without a token
    if _GIVEN_UP.search(text) or ("stopped SparkContext" in text and _answers(place)):
        return _given_up(f'Spark at "{place}"')
    option = "remote" if wanted.remote else "master"
    return PgError(
        "08001",
        f'could not connect to Spark at "{place}"',
        hint=f"Is Spark running there? --{option} names the place, or PGREPL_{option.upper()}.",
    )


def _answers(master: str) -> bool:
    """Does one of the masters of a standalone cluster take connections? spark://one:7077,other:7077"""
    for place in master.removeprefix("spark://").split(",") if master.startswith("spark://") else ():
        host, _, port = place.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE).close()
        except (OSError, ValueError):
            continue
        return True
    return False


def _given_up(where: str) -> PgError:
    return PgError(
        "58000",
        f"{where} has given the application up: its executors fail as soon as they are started",
        detail="The master does so after spark.deploy.maxExecutorRetries failures in a row (10 unless it is told).",
        hint="The executors' logs say why: stderr in work/app-…/ on the workers, or by the master's web page. Without "
        "such a folder it is in the worker's own log.",
    )


def _texts(problem: BaseException) -> list[str]:
    """The texts of an exception and its causes, if any of them is Spark's."""
    said: list[str] = []
    seen: set[int] = set()
    foreign = False
    error: BaseException | None = problem
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        module = type(error).__module__ + "."
        if module.startswith(_FOREIGN) or isinstance(error, ConnectionError):
            foreign = foreign or module.startswith(_FOREIGN)
            said.append(_text(error))
        error = error.__cause__ or error.__context__
    return said if foreign else []


def _text(problem: BaseException) -> str:
    """The message, and the stack traces that pyspark keeps beside it."""
    try:
        parts = [str(problem)]
    except ConnectionError:  # it asks the JVM, which has ended
        parts = ["JVM is not running"]
    return "\n".join(parts + stack_traces(problem))


# Spark's own arithmetic names the type of the overflow, which is that of the result. Spark 4.3 names it for casts only;
# without a cast only bigint is computed (expr/exchange/arithmetic.py).
_OVERFLOW = re.compile(
    r"\[ARITHMETIC_OVERFLOW\] (?P<one>(?:(?:integer|long|short) )?)overflow"
    r"|\[ARITHMETIC_OVERFLOW\] Overflow in (?P<two>integral) divide|\[BINARY_ARITHMETIC_OVERFLOW\] -?\d+(?P<three>S) "
    r"|\[CAST_OVERFLOW\] [^\n]*? cannot be cast to \"(?P<four>SMALLINT|INT|BIGINT)\""
    r"|\[NUMERIC_VALUE_OUT_OF_RANGE[^\]]*\][^\n]*? as (?P<five>SMALLINT|INT|BIGINT)\b"
)
_INTEGERS = {
    "integer ": "integer", "long ": "bigint", "short ": "smallint", "": "bigint", "integral": "bigint", "S": "smallint",
    "SMALLINT": "smallint", "INT": "integer", "BIGINT": "bigint",
}  # fmt: skip
_BY_ZERO = re.compile(r"\[(DIVIDE|REMAINDER)_BY_ZERO\]")


def _arithmetic(text: str) -> PgError | None:
    if _BY_ZERO.search(text):
        return PgError("22012", "division by zero")
    match = _OVERFLOW.search(text)
    if match is None:
        return None
    word = next(word for word in match.groups() if word is not None)
    return PgError("22003", f"{_INTEGERS[word]} out of range")


def _known(text: str) -> PgError | None:
    if "[SCALAR_SUBQUERY_TOO_MANY_ROWS]" in text:
        return PgError("21000", "more than one row returned by a subquery used as an expression")
    if _CANCELLED.search(text):
        return interrupts.interrupted() or interrupts.user_request()
    if _DISK_FULL.search(text):
        return PgError("53100", "could not write to the lake: No space left on device", hint="Check free disk space.")
    missing = _MISSING_FILE.search(text)
    if missing is not None:
        return PgError("58P01", f'could not open file "{_local(missing["path"])}": No such file or directory')
    if _MEMORY.search(text):
        return ended(out_of_memory=True)
    if _RESULT_SIZE.search(text):
        return PgError(
            "53200",
            "the result is too large to be fetched",
            hint="Fetch fewer rows, write them with COPY … TO, or raise --conf spark.driver.maxResultSize.",
        )
    damaged = _BAD_FILE.search(text)
    if damaged is not None:
        path = _local(damaged["path"])
        if _DENIED.search(text):
            return PgError("42501", f'could not open file "{path}": Permission denied')
        return PgError("XX001", f'could not read file "{path}"', detail=_reason(text))
    folder = _NO_FOLDER.search(text)
    if folder is not None:
        return PgError("58030", f'could not create directory "{_local(folder["path"])}"')
    absent = _NO_MODULE.search(text)
    if absent is not None:
        return PgError(
            "58000",
            f"Spark's Python has no module {absent['module']}",
            detail="What Spark has no equal of is computed in Python on its executors.",
            hint="Install pgrepl there, in the Python that Spark's workers use, from the wheel that is installed here.",
        )
    broken = _NOT_IMPORTED.search(text)
    if broken is not None:
        return PgError(
            "58000",
            "Spark's Python cannot use pgrepl",
            detail=f"On an executor: {broken['reason']}.",
            hint="The Python of Spark's workers (PYSPARK_PYTHON) is to be like the driver's, with numpy and pyarrow.",
        )
    other = _OTHER_PYTHON.search(text)
    if other is not None:
        return PgError(
            "58000",
            "Spark's Python has another version than pgrepl's",
            detail=f"An executor has Python {_version(other['there'])}, pgrepl {_version(other['here'])}.",
            hint="Let PYSPARK_PYTHON name a Python of pgrepl's minor version on the executors.",
        )
    if _WORKER_LOST.search(text):
        return PgError("58000", "a Python process of Spark ended unexpectedly while the statement ran")
    if _GIVEN_UP.search(text):
        return _given_up("Spark")
    if _LOST.search(text):
        return ended(out_of_memory=False)
    return None


def _version(text: str) -> str:
    """3.11 of (3, 11)."""
    return ".".join(re.findall(r"\d+", text))


def ended(*, out_of_memory: bool) -> PgError:
    """The error of a JVM or an executor that has ended."""
    if out_of_memory:
        return PgError(
            "53200",
            "out of memory",
            detail="Spark's Java heap is too small for this statement.",
            hint="Give it more with --conf spark.driver.memory=8g, or fewer tasks at a time with --master local[2].",
        )
    return PgError(
        "58000",
        "Spark ended unexpectedly while the statement ran",
        hint="Nothing of the statement was kept. Run it again: Spark is started anew.",
    )


def _local(path: str) -> str:
    """A path without scheme and %-escapes: file:/a%20b is /a b."""
    path = path.rstrip(".")
    if path.startswith("file:"):
        return unquote("/" + path.removeprefix("file:").lstrip("/"))
    return path


def _reason(text: str) -> str | None:
    """The innermost cause, without the exception's class."""
    causes = re.findall(r"^Caused by: ([^\n]+)", text, re.MULTILINE)
    if not causes:
        return None
    return re.sub(r"^(?:[\w$]+\.)+[\w$]+:\s*", "", causes[-1]).strip() or None


_OF_TASK = re.compile(r"Job aborted due to stage failure: .*? executor [\w-]+\): (?P<cause>[^\n]+)")


def _first_line(text: str) -> str:
    task = _OF_TASK.search(text)
    if task is not None:
        cause = re.sub(r"^(?:[\w$]+\.)+[\w$]+:\s*", "", task["cause"])
        if not cause.startswith("Traceback"):
            return cause
    python = _IN_PYTHON.search(text)
    if python is not None:
        return python["cause"]
    for line in text.splitlines():
        line = line.strip()
        if line and not line.startswith(("An error occurred while calling", "Traceback", ": ")):
            return line
        if line.startswith(": "):
            return line[2:]
    return "no reason given"


@frozen
class SparkJob:
    """A running job. `seconds`: since it was submitted; `done`, `running` and `tasks` count tasks."""

    number: int
    what: str
    seconds: float
    done: int
    running: int
    tasks: int


@frozen
class SparkFacts:
    """`is_up`: there is a JVM with Spark; `ui`: the address of Spark's UI, if there is one. `is_remote`: Spark is
    behind a Spark Connect server, which alone knows its jobs."""

    is_up: bool = False
    ui: str | None = None
    jobs: tuple[SparkJob, ...] = ()
    is_remote: bool = False

    def text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, text: str | bytes) -> SparkFacts:
        """ValueError, TypeError, KeyError: it is none."""
        facts: dict[str, Any] = json.loads(text)
        return cls(**{**facts, "jobs": tuple([SparkJob(**job) for job in facts["jobs"]])})


def look(jvm: Any, context: Any) -> SparkFacts:
    """What the JVM's Spark does; `context` is its SparkContext."""
    jobs = [SparkJob(*job) for job in internals.running_jobs(jvm, context)]
    return SparkFacts(is_up=True, ui=internals.ui_address(context), jobs=tuple(jobs))
