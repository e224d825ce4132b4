"""The target table of a published one: found by name, its columns by name, its rows by their replica identity.

A value is converted through its text form, with `binary = true` through its binary form, never by a cast. What does
not convert by columns raises; the row-by-row way then says which row it was.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.relation import Attribute, Relation, find_relation
from pgrepl.catalog.facts.relation_parts import identity_or_primary_key
from pgrepl.catalog.facts.subscription import check_subscription_relkind
from pgrepl.catalog.store.system import FIRST_NORMAL_OID
from pgrepl.expr.analyse.casts import length_function
from pgrepl.expr.catalog_trees import column_default
from pgrepl.expr.evaluate.compiler import Compiled
from pgrepl.expr.evaluate.evaluate import compile
from pgrepl.expr.functions.registry import Context
from pgrepl.expr.tree import CoerceToDomain, CoerceViaIO, Const, Expr, FuncExpr, Var
from pgrepl.expr.walk import contains_mutable_functions
from pgrepl.ground.errors import Declined, PgError
from pgrepl.ground.frozen import frozen
from pgrepl.replication.subscriber.apply.progress import Progress
from pgrepl.replication.wire.messages import UNCHANGED, Row, SentColumn, SentRelation
from pgrepl.replication.wire.values import TEXTS, WIRE_STYLE, BinaryValue, reads_as_written
from pgrepl.sql.nodes import CoercionForm
from pgrepl.sql.nodes.expr import RangeVar
from pgrepl.types import oids
from pgrepl.types.binary import receiver, receives, sends
from pgrepl.types.binary_scalars import BinaryMessage, Receive, Send
from pgrepl.types.builtin import base_type_and_typmod, proc_by_oid
from pgrepl.types.input_checks import UTF8, text_to_bytes
from pgrepl.types.lake.forms import is_row_type
from pgrepl.types.style import TextStyle
from pgrepl.types.text import Reader, reader, writer

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.engine.copy_rows import KernelColumn

Convert = Callable[[Any], Any]


@frozen
class SearchKey:
    """The columns by which a row is found: those of an index, or all."""

    attnums: tuple[int, ...]
    by_index: bool


@frozen
class _Default:
    """The default of a column that is not sent."""

    position: int
    value: Compiled
    is_constant: bool


class TargetTable:
    """The target table of a relation of the publisher (logicalrep_rel_open)."""

    def __init__(self, session: Session, sent: SentRelation, progress: Progress, *, binary: bool = False) -> None:
        """`binary`: values come in their binary form."""
        self.sent = sent
        self.relation = find_target(session, sent)
        self._progress = progress
        self._session = session
        self._encoding = session.settings.get("server_encoding")
        self.places = match_columns(session, self.relation, sent)
        self._converts = [
            self._converter(place, self.relation.attributes[n], binary) if place >= 0 else None
            for n, place in enumerate(self.places)
        ]
        self._as_sent = self._encoding == UTF8 and not any(self._converts)  # no value needs to be looked at
        self._defaults: list[_Default] | None = None

    def _fits(self, value: Any) -> Any:
        """A value whose characters the database's encoding has; or the error for one that it has not."""
        if isinstance(value, str) and not value.isascii():
            text_to_bytes(value, self._encoding)
        return value

    def store(self, row: Row) -> list[Any]:
        """A sent row in the layout of the table; columns that are not sent are NULL (slot_store_data)."""
        if self._as_sent:
            return [
                None if place < 0 or (value := row[place]) is UNCHANGED else value  # a plain row, quickly
                for place in self.places
            ]
        stored: list[Any] = []
        for place, convert in zip(self.places, self._converts, strict=True):
            value = None if place < 0 else row[place]
            stored.append(None if value is None or value is UNCHANGED else self._converted(convert, value, place))
        return stored

    def modify(self, local: Sequence[Any], new: Row) -> Row:
        """The local row with the values that were sent (slot_modify_data)."""
        changed = list(local)
        if self._as_sent:
            for n, place in enumerate(self.places):
                if place >= 0 and (value := new[place]) is not UNCHANGED:
                    changed[n] = value
            return tuple(changed)
        for n, (place, convert) in enumerate(zip(self.places, self._converts, strict=True)):
            if place < 0 or new[place] is UNCHANGED:
                continue
            value = new[place]
            changed[n] = None if value is None else self._converted(convert, value, place)
        return tuple(changed)

    def complete(self, stored: list[Any]) -> Row:
        """A new row: columns that the publisher does not send get their defaults (slot_fill_defaults)."""
        for default in self._missing_defaults():
            stored[default.position] = default.value(())
        return tuple(stored)

    def foreseen(self, stored: list[Any]) -> Row:
        """A new row with its constant defaults only: others, such as nextval(), must be evaluated just once."""
        for default in self._missing_defaults():
            stored[default.position] = default.value(()) if default.is_constant else None
        return tuple(stored)

    @property
    def is_repeatable(self) -> bool:
        """Whether completing a new row gives the same row each time."""
        return all(default.is_constant for default in self._missing_defaults())

    def _missing_defaults(self) -> list[_Default]:
        if self._defaults is None:
            self._defaults = self._find_defaults()
        return self._defaults

    def _find_defaults(self) -> list[_Default]:
        context = Context(self._session)
        defaults = []
        for n, attribute in enumerate(self.relation.attributes):
            if self.places[n] >= 0 or attribute.dropped or attribute.generated:
                continue
            expr = column_default(self._session, self.relation, attribute)
            if expr is not None:
                defaults.append(_Default(n, compile(expr, context), not contains_mutable_functions(expr)))
        return defaults

    def _converter(self, place: int, local: Attribute, binary: bool) -> Convert | None:
        sent, convert = self.sent.columns[place], self._text_converter(place, local, binary)
        if not binary or not sent.text_of or sent.text_of in TEXTS:
            return convert
        receive = partial(_receive, receiver(local.type), local.typmod, place, self._session.text_style)

        def received(value: Any) -> Any:
            if isinstance(value, BinaryValue):
                return receive(value)
            return value if convert is None else convert(value)

        return received

    def _text_converter(self, place: int, local: Attribute, binary: bool) -> Convert | None:
        sent = self.sent.columns[place]
        style = self._session.text_style
        # a type of the server's users is not known here by its OID; a copy brings its values as text
        if binary and sent.sent_as != local.type and sent.text_of < FIRST_NORMAL_OID:
            send, receive = sends(sent.sent_as), receives(local.type)
            if send is not None and receive is not None:
                if sent.text_of:
                    send = partial(_send_text, send, reader(sent.text_of))
                return partial(_received, send, receive, local.typmod, place, style)
        if (sent.type, sent.typmod) == (local.type, local.typmod):
            return None
        write, read, typmod = writer(sent.type), reader(local.type), local.typmod

        def convert(value: Any) -> Any:
            text = write(value, WIRE_STYLE)
            return read(text, typmod, style)

        return convert

    def _converted(self, convert: Convert | None, value: Any, place: int) -> Any:
        if self._encoding == UTF8 and convert is None:
            return value
        try:
            stored = value if convert is None else convert(value)
            return stored if self._encoding == UTF8 else self._fits(stored)
        except PgError:
            self._progress.column = self.sent.columns[place].name
            raise


def target_or_none(session: Session, sent: SentRelation) -> Relation | None:
    return find_relation(session, RangeVar(sent.name, sent.schema), missing_ok=True)


def find_target(session: Session, sent: SentRelation) -> Relation:
    """The table with the relation's name."""
    target = target_or_none(session, sent)
    if target is None:
        raise PgError("55000", f'logical replication target relation "{sent.qualified_name}" does not exist')
    check_subscription_relkind(target)
    return target


def differing_types(session: Session, local: Relation, sent: SentRelation) -> bool:
    """Whether a column has another type than the value sent for it."""
    places = match_columns(session, local, sent)
    return any(
        place >= 0 and sent.columns[place].sent_as != attribute.type
        for place, attribute in zip(places, local.attributes, strict=True)
    )


def match_columns(session: Session, local: Relation, sent: SentRelation) -> tuple[int, ...]:
    """The place among the sent columns of each column of the table, by number; -1: not sent."""
    numbers = {column.name: n for n, column in enumerate(sent.columns)}
    missing = dict(numbers)
    places = []
    for attribute in local.attributes:
        place = -1 if attribute.dropped or attribute.generated else numbers.get(attribute.name, -1)
        places.append(place)
        missing.pop(attribute.name if place >= 0 else "", None)
    if missing:
        _refuse_missing(session, local, sent, missing)
    return tuple(places)


def _refuse_missing(session: Session, local: Relation, sent: SentRelation, missing: Collection[str]) -> None:
    """As logicalrep_report_missing_or_gen_attrs; 17 does not tell generated columns from missing ones."""
    generated = {a.name for a in local.columns if a.generated} if session.settings.release >= 18 else set()
    lacks, problem = [name for name in missing if name not in generated], "is missing replicated"
    if not lacks:
        lacks, problem = list(missing), "has incompatible generated"
    named = ", ".join(f'"{name}"' for name in lacks)
    columns = "column" if len(lacks) == 1 else "columns"
    raise PgError("55000", f'logical replication target relation "{sent.qualified_name}" {problem} {columns}: {named}')


def _received(send: Send, receive: Receive, typmod: int, place: int, style: TextStyle, value: Any) -> Any:
    """The value that the column's receive function reads from the bytes of the publisher's type."""
    return _receive(receive, typmod, place, style, send(value))


def _receive(receive: Receive, typmod: int, place: int, style: TextStyle, data: bytes) -> Any:
    message = BinaryMessage(data)
    received = receive(message, typmod, style)
    if not message.is_read:
        raise IncorrectBinary(place + 1)
    return received


def _send_text(send: Send, read: Reader, text: Any) -> bytes:
    return send(read(text, -1, WIRE_STYLE))


class IncorrectBinary(PgError):
    """A receive function has not read all bytes. COPY's message is the same without the number of the column."""

    def __init__(self, number: int) -> None:
        super().__init__("22P03", f"incorrect binary data format in logical replication column {number}")


def identity_of(session: Session, table: Relation, places: Sequence[int], sent: SentRelation) -> SearchKey:
    """The search key for old rows of a table; an error if the publisher does not send it (check_relation_updatable)."""
    index = identity_or_primary_key(session, table)
    if index is None:
        if sent.replident != "f":
            raise PgError(
                "55000",
                f'logical replication target relation "{sent.qualified_name}" has neither REPLICA IDENTITY index nor '
                "PRIMARY KEY and published relation does not have REPLICA IDENTITY FULL",
            )
        return SearchKey(tuple([a.num for a in table.columns if not a.generated]), by_index=False)
    attnums = tuple(index.indkey[: index.indnkeyatts])
    if not all(places[n - 1] >= 0 and sent.columns[places[n - 1]].is_key for n in attnums):
        raise PgError(
            "55000",
            "publisher did not send replica identity column expected by the logical replication target relation "
            f'"{sent.qualified_name}"',
        )
    return SearchKey(attnums, by_index=True)


# --- convert ----------------------------------------------------------------------------------------------------------


_TEXTS = (oids.TEXT, oids.VARCHAR)


class MatchedColumns:
    """The target's columns beside those that are sent. `places`: for each column by number the place among those that
    are sent, -1: not sent."""

    def __init__(self, session: Session, target: Relation, sent: SentRelation) -> None:
        self.target = target
        self.sent = sent
        self.places = match_columns(session, target, sent)

    @property
    def unsent(self) -> list[Attribute]:
        """The target's columns that keep their values when a row is updated."""
        return [a for a in self.target.columns if self.places[a.num - 1] < 0 and not a.generated]

    def same_type(self, attnum: int) -> bool:
        """Whether the column holds what was sent as it is."""
        return is_same(self.sent.columns[self.places[attnum - 1]], self.target.attributes[attnum - 1])


def is_same(column: SentColumn, attribute: Attribute) -> bool:
    return (column.type, column.typmod) == (attribute.type, attribute.typmod)


def copied(column: SentColumn, attribute: Attribute, place: int) -> KernelColumn | None:
    """The column where a cast in Arrow does what the text form would do. None: it does not."""
    from pgrepl.engine.copy_rows import KernelColumn

    longest = None
    if is_row_type(column.type):
        return None  # the target may keep rows in another way
    if not is_same(column, attribute):
        whole = column.type in oids.INTEGERS and attribute.type in oids.INTEGERS
        if not whole and not (column.type in _TEXTS and attribute.type in _TEXTS):
            return None
        if not whole and attribute.typmod >= 0 and not 0 <= column.typmod <= attribute.typmod:
            longest = attribute.typmod - 4
    return KernelColumn(attribute.num, place + 1, None, attribute.notnull, longest)


def converted(session: Session, column: SentColumn, attribute: Attribute, place: int) -> KernelColumn:
    """The same for all types. Sent columns have the attribute numbers 1 + their place."""
    from pgrepl.engine.copy_rows import KernelColumn
    from pgrepl.expr.arrow.program import conversion_of

    by_columns = copied(column, attribute, place)
    if by_columns is not None:
        return by_columns
    if not is_same(column, attribute):
        check_readable(session, attribute)
    value = conversion_of(through_text(column, attribute, place + 1), Context(session, WIRE_STYLE))
    if value is None:
        raise Declined(f'the type of column "{attribute.name}"')
    return KernelColumn(attribute.num, 0, None, attribute.notnull, None, value)


def check_readable(session: Session, attribute: Attribute) -> None:
    if not reads_as_written(session):
        raise Declined(f'the settings by which column "{attribute.name}" is read')


_SIZED = (
    oids.VARCHAR, oids.BPCHAR, oids.NUMERIC, oids.TIMESTAMP, oids.TIMESTAMPTZ, oids.TIME, oids.TIMETZ, oids.INTERVAL,
    oids.BIT, oids.VARBIT,
)  # fmt: skip


def through_text(column: SentColumn, attribute: Attribute, attnum: int) -> Expr:
    """`attnum`: that of the sent column."""
    is_row = is_row_type(column.type)
    if is_row and column.kept is None:
        raise Declined(f'the type of column "{attribute.name}"')
    source, sent_typmod = base_type_and_typmod(column.type, column.typmod)
    target, typmod = base_type_and_typmod(attribute.type, attribute.typmod)
    expr: Expr = Var(column.type, typmod=column.typmod, attnum=attnum)
    if is_row or source != target:
        expr = CoerceViaIO(target, arg=expr)
    if typmod >= 0 and (source, sent_typmod) != (target, typmod):
        expr = _sized(expr, target, typmod, attribute)
    if target != attribute.type:
        expr = CoerceToDomain(attribute.type, arg=expr)
    return expr


def _sized(expr: Expr, target: int, typmod: int, attribute: Attribute) -> Expr:
    """The cast to a length. An input function treats a typmod as an implicit cast does."""
    if target not in _SIZED:
        raise Declined(f'the type of column "{attribute.name}"')
    _, function = length_function(target)
    if not function:
        return expr
    proc = proc_by_oid(function)
    args: list[Expr] = [expr, Const(oids.INT4, value=typmod)]
    if proc is not None and proc.nargs == 3:
        args.append(Const(oids.BOOL, value=False))
    form = CoercionForm.IMPLICIT_CAST
    return FuncExpr(target, typmod=typmod, func=function, args=tuple(args), form=form)


def row_errors(error: PgError) -> bool:
    """Whether the error concerns some row or table, so that the exact way has to find and word it."""
    return error.sqlstate[:2] in ("22", "23", "0A", "2F", "XX", "42", "54", "55")
