"""The register of functions: by pg_proc.prosrc, the forms in which a function is computed.

    implements = Family()

    @implements("textlen", columns="utf8_length", spark="char_length({})")
    def textlen(text: str) -> int: …

    @in_columns("textlike")
    def _like(args: Sequence[tree.Expr]) -> Columnar: …

    @in_spark("text_substr")
    def text_substr(call: SparkFunctionCall) -> Sql | None: …

The first form is of one row's values, and the one that every function has. A strict one is never called with NULL
(None). With `context=True` it gets the `Call` first: style, types of the arguments, the release that is spoken
(`call.context.release`), and the session, which executors do not have. A set-returning one returns an iterable, of
tuples if a row has several columns. Functions that PostgreSQL writes in SQL are keyed by their signature,
`lpad(text,integer)`.

The form of columns gets the arguments' trees, and neither session nor release: where these decide, its kernel raises
Arrow's error (`unicode_assigned` in arrow/values.py), and the rows of the batch are computed one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pgrepl.catalog.facts.namespace import routine
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.ground.memory import Meter
from pgrepl.types.builtin import SQL, Proc, proc_by_oid
from pgrepl.types.names import format_type
from pgrepl.types.style import DEFAULT_STYLE, TextStyle

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.expr.tree import Column


class Context:
    """The runtime context of one statement's expressions. Without a session only functions that need no catalog run."""

    def __init__(self, session: Session | None = None, style: TextStyle | None = None) -> None:
        self._session = session
        self._style = style
        self._meter: Meter | None = None
        self.domain_tests: dict[Any, Any] = {}  # the compiled constraints of domains (evaluate/compiler.py)

    @property
    def meter(self) -> Meter:
        """The meter of the memory that the statement's rows use."""
        if self._meter is None:
            limit = self._session.settings.value("pgrepl.memory_limit") if self._session is not None else 0
            self._meter = Meter(int(limit) << 10)
        return self._meter

    @property
    def session(self) -> Session:
        assert self._session is not None, "this expression needs a session"
        return self._session

    @property
    def has_session(self) -> bool:
        return self._session is not None

    def catalog_function(self, source: str) -> Implementation | None:
        """The implementation of a function that only the catalog can answer."""
        known: Implementation | None = None if self._session is None else self._session.hooks.catalog_function(source)
        return known

    def proc(self, oid: int) -> Proc | None:
        """A function by its OID; without a session only built-in ones are known."""
        return proc_by_oid(oid) if self._session is None else routine(self._session, oid)

    def hash_classes(self, parent: int) -> tuple[tuple[int, int], ...] | None:
        """Operator classes and types of a hash-partitioned table's key; None: the table is not hash-partitioned."""
        from pgrepl.expr.catalog_trees import partition_key

        key = partition_key(self.session, parent)
        if key is None or key.strategy != "h":
            return None
        return tuple((column.opclass, column.type) for column in key.columns)

    @property
    def style(self) -> TextStyle:
        """The settings that output functions depend on, read when the statement first needs them."""
        if self._style is None:
            self._style = DEFAULT_STYLE if self._session is None else self._session.text_style
        return self._style

    @property
    def release(self) -> int:
        """The release of PostgreSQL that is spoken."""
        return self.style.release if self._session is None else self._session.settings.release

    @property
    def now(self) -> int:
        """Start of the transaction, microseconds since 2000-01-01."""
        from pgrepl.types.times.datetime_decoding import current_usecs

        return current_usecs(self.style)

    @property
    def statement_now(self) -> int:
        """Start of the statement, in the same unit; that of the transaction on an executor."""
        return self.now if self._session is None else self._session.transaction.statement_now


@frozen
class Call:
    """One call of a function: what an implementation may need besides the argument values."""

    context: Context
    argtypes: tuple[int, ...]  # the actual types, where the declared ones are polymorphic
    type: int
    collation: int = 0
    variadic: bool = False  # the last argument was given as VARIADIC array
    columns: tuple[Column, ...] | None = None  # of the column definition list in FROM
    atomic: bool = True  # a procedure must not end the transaction

    @property
    def session(self) -> Session:
        return self.context.session

    @property
    def style(self) -> TextStyle:
        return self.context.style


# --- registry ---------------------------------------------------------------------------------------------------------


F = TypeVar("F", bound=Callable[..., Any])


class Implementation(NamedTuple):
    """The form of rows, and the other forms where a text says all: the name of Arrow's kernel (compiler.kernel), and
    Spark's SQL with a place for each argument."""

    function: Callable[..., Any]
    wants_call: bool
    columns: str = ""
    spark: str = ""


class Family:
    """The functions of a module."""

    def __init__(self) -> None:
        self._known: dict[str, Implementation] = {}
        self.get = self._known.get

    def __call__(self, *sources: str, context: bool = False, columns: str = "", spark: str = "") -> Callable[[F], F]:
        def register(function: F) -> F:
            for source in sources:
                self._known[source] = Implementation(function, context, columns, spark)
            return function

        return register

    def __iter__(self) -> Iterator[tuple[str, Implementation]]:
        return iter(self._known.items())


COLUMNS: dict[str, Any] = {}
SPARK: dict[str, Any] = {}


def in_columns(*sources: str) -> Callable[[F], F]:
    """Register the function that compiles calls to kernels over whole columns (expr/arrow)."""
    return _registering(COLUMNS, sources)


def in_spark(*sources: str) -> Callable[[F], F]:
    """Register the function that writes calls in Spark's SQL (expr/exchange)."""
    return _registering(SPARK, sources)


def _registering(known: dict[str, Any], sources: tuple[str, ...]) -> Callable[[F], F]:
    def register(function: F) -> F:
        known.update(dict.fromkeys(sources, function))
        return function

    return register


def source_of(proc: Proc) -> str:
    """The key that a function is registered under."""
    if proc.lang == SQL:
        return f"{proc.name}({','.join(map(format_type, proc.argtypes))})"
    return proc.src


def missing(proc: Proc) -> PgError:
    """The error for a function that pgrepl does not have."""
    arguments = ", ".join(map(format_type, proc.argtypes))
    return PgError("0A000", f"function {proc.name}({arguments}) is not supported")
