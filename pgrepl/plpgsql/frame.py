"""`Code`, a function made ready to run, and `Frame`, the state of one call: values of variables by number
(PLpgSQL_execstate); the types of declarations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from pgrepl.catalog.facts.relation import Relation, find_relation
from pgrepl.catalog.facts.user_types import rowtype_relation, type_row
from pgrepl.expr.analyse import lookup
from pgrepl.expr.analyse.casts import type_name_text, type_of_name
from pgrepl.expr.functions.registry import Context
from pgrepl.expr.tree import Const, Expr, Variable
from pgrepl.ground.errors import PgError
from pgrepl.plpgsql.datums import Column, DataType, ItemKind, NameItem, Rec, Var, find_name
from pgrepl.sql import nodes
from pgrepl.sql.parser import parse_type_name
from pgrepl.types import oids
from pgrepl.types.style import Record

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.expr.analyse.kinds import Conflict
    from pgrepl.plpgsql.compilation import Compilation, Function
    from pgrepl.plpgsql.nodes import Statement

REFCURSOR = DataType(1790, -1, oids.DEFAULT_COLLATION, "refcursor")

# kinds of relations with a row type (LookupTypeName of %ROWTYPE): tables, views, composite types, and so on
_WITH_ROWS = frozenset("rvmcfp")


def data_type(session: Session, oid: int, typmod: int = -1, name: str = "", collation: int | None = None) -> DataType:
    """The description of a type (build_datatype)."""
    base = lookup.base(oid)
    is_row = base == oids.RECORD or lookup.is_complex(base)
    own = lookup.collation(oid)
    return DataType(
        oid, typmod, own if collation is None else collation, name or lookup.type_text(session, oid), is_row
    )


def named_type(compilation: Compilation, key: tuple[str, ...], look_up: Callable[[], DataType]) -> DataType:
    """The type of a declaration: the one that its name meant when the session first compiled the function. If that is
    gone, or its relation has changed, the one that the name means now; a row variable may have none, as long as nothing
    is done with it (revalidate_rectypeid)."""
    session, types = compilation.session, compilation.first.types
    known, state = types.get(key, (None, ""))
    if known is not None and _state(session, int(known.oid)) == state:
        return replace(known, oid=session.type_of(int(known.oid)))
    try:
        data = look_up()
    except PgError:
        if known is None or not known.is_row:
            raise
        return replace(known, is_gone=True)
    types[key] = data, _state(session, int(data.oid))
    return data


def _state(session: Session, oid: int) -> str:
    """What a type is whose name need not be looked up again."""
    row = None if oid < oids.FIRST_USER_OID else type_row(session, oid)
    if oid < oids.FIRST_USER_OID or (row is not None and row.typtype != "c"):
        return "there"
    return repr(rowtype_relation(session, oid))


class RecordError(PgError):
    """A record variable is not what an expression takes it for."""


def missing_type(kind: DataType) -> PgError:
    return RecordError("42704", f'type "{kind.name}" does not exist')


def type_of_text(compilation: Compilation, text: str, begin: int) -> DataType:
    """The type that a name means (parse_datatype)."""
    session = compilation.session
    try:
        name = parse_type_name(text)
        if name.setof:
            raise PgError("42601", f'invalid type name "{text}"')
        oid, typmod = type_of_name(session, name)
    except PgError as error:
        if error.sqlstate == "42601" and error.message.startswith("syntax error"):
            error.with_context(f'invalid type name "{text}"')
        raise compilation.placed(error, begin) from None
    return data_type(session, oid, typmod, type_name_text(name))


def type_like(compilation: Compilation, names: tuple[str, ...]) -> DataType:
    """name%TYPE: of a variable, or of a column of a relation (plpgsql_parse_wordtype, …_cwordtype)."""
    item, used = find_name(compilation.names, names)
    if item is not None:
        datum = compilation.function.datums[item.number]
        if used == len(names) and isinstance(datum, (Var, Rec)):
            return datum.type
    if len(names) == 1:
        raise PgError("42704", f'variable "{names[0]}" does not exist')
    session = compilation.session
    rel = _relation(session, names[:-1])
    column = next((a for a in rel.attributes if a.name == names[-1] and not a.dropped), None)
    if column is None:
        raise PgError("42703", f'column "{names[-1]}" of relation "{names[-2]}" does not exist')
    return data_type(session, column.type, column.typmod, collation=column.collation)


def row_type_of(compilation: Compilation, names: tuple[str, ...]) -> DataType:
    """name%ROWTYPE (plpgsql_parse_wordrowtype, …_cwordrowtype)."""
    session = compilation.session
    rel = _relation(session, names)
    if rel.kind not in _WITH_ROWS:
        raise PgError("42809", f'relation "{names[-1]}" does not have a composite type')
    return data_type(session, lookup.row_type(session, rel.oid), name=names[-1])


def _relation(session: Session, names: tuple[str, ...]) -> Relation:
    schema = names[-2] if len(names) > 1 else None
    relation = find_relation(session, nodes.RangeVar(names[-1], schema))
    assert relation is not None
    return relation


def array_of(session: Session, kind: DataType) -> DataType:
    """The array of a type (plpgsql_build_datatype_arrayof)."""
    if lookup.element(kind.oid):
        return kind
    array = lookup.array_over(kind.oid)
    if not array:
        text = lookup.type_text(session, kind.oid)
        raise PgError("42704", f"could not find array type for data type {text}")
    return data_type(session, array, kind.typmod, collation=kind.collation)


# --- frame ------------------------------------------------------------------------------------------------------------


class AnalysedSql(Protocol):
    """A piece of SQL that keeps its analysis (expr.py)."""

    def forget(self) -> None: ...


class Code:
    """A function made ready to run."""

    def __init__(self, session: Session, function: Function) -> None:
        self.function = function
        self.session = session
        self.context = RoutineContext(session)
        self.columns: Sequence[Column] = ()  # of the result
        self.pieces: list[AnalysedSql] = []  # the SQL of the body
        self.casts: dict[Any, Callable[[Any], Any]] = {}
        self.row_types: dict[int, list[Column]] = {}  # the columns of named row types
        self.layout: Any = None  # of a trigger's relation (call.py)
        self.run: Callable[[Frame], ReturnCode | None] = _unmade
        self._state: object = None

    def refresh(self) -> None:
        """Forget what has been analysed when definitions or the search path have changed since."""
        session = self.session
        self.context.renew()
        now = (session.derived.setdefault(("plpgsql",), object()), session.settings.found(("search_path",)))
        if self._state != now:
            self._state = now
            self.casts.clear()
            self.row_types.clear()
            for piece in self.pieces:
                piece.forget()


class RoutineContext(Context):
    """The context of compiled expressions, which live longer than a statement."""

    def renew(self) -> None:
        """Read the settings anew, which a statement may have changed."""
        self._style = None


def _unmade(frame: Frame) -> None:
    raise AssertionError("the body has not been compiled")


class Frame(list[Any]):
    """The values of variables; a list, so that compiled expressions take them by index.

    A record variable has a Record, or None: not assigned yet, or NULL of a named row type.
    """

    __slots__ = (
        "atomic",
        "code",
        "error",
        "is_alone",
        "line",
        "phase",
        "read_only",
        "returned",
        "row_count",
        "rows",
        "session",
        "statement",
    )

    def __init__(
        self, code: Code, session: Session, *, atomic: bool, read_only: bool = False, is_alone: bool = False
    ) -> None:
        super().__init__([None] * len(code.function.datums))
        self.code = code
        self.session = session
        self.atomic = atomic  # COMMIT and ROLLBACK are errors
        self.is_alone = is_alone  # of DO or CALL: no query of the client runs around it
        self.read_only = read_only  # of a function that is not volatile
        self.statement: Statement | None = None  # the running one
        self.line = 0  # of a variable that is being initialized
        self.phase = ""  # what is done outside of statements
        self.row_count = 0
        self.error: PgError | None = None  # the one that is being handled
        self.returned: Any = None  # the value of RETURN, and its type
        self.rows: list[tuple[Any, ...]] = []  # of RETURN NEXT and RETURN QUERY

    def where(self) -> str:
        """The line of CONTEXT for the frame (plpgsql_exec_error_callback)."""
        signature, statement = self.code.function.signature, self.statement
        line = self.line or (statement.line if statement is not None else 0)
        if self.phase:
            return f"PL/pgSQL function {signature} " + (f"line {line} " if line else "") + self.phase
        if statement is not None and line:
            return f"PL/pgSQL function {signature} line {line} at {statement.kind}"
        return f"PL/pgSQL function {signature}"


ExecStmt = Callable[[Frame], "ReturnCode | None"]  # a compiled statement; None (PLPGSQL_RC_OK): the next one follows


class ReturnCode:
    """A statement's return code: control leaves the statements around it (PLPGSQL_RC_…)."""

    __slots__ = ("label",)

    def __init__(self, label: str | None = None) -> None:
        self.label = label


class RcExit(ReturnCode):
    """EXIT."""


class RcContinue(ReturnCode):
    """CONTINUE."""


class RcReturn(ReturnCode):
    """RETURN."""


RC_RETURN = RcReturn()


# --- variables --------------------------------------------------------------------------------------------------------


class FrameVariables:
    """`as_values`: names become constants, for statements that are analysed each time they run."""

    def __init__(self, frame: Frame, names: NameItem | None, *, as_values: bool) -> None:
        self.frame = frame
        self.names = names
        self.as_values = as_values
        self.records: set[int] = set()  # the record variables without a type of their own that were looked up
        self.places: dict[int, tuple[int, str | None]] = {}  # where which variable, or field of one, stands

    @property
    def conflict(self) -> Conflict:
        return self.frame.code.function.conflict

    def as_now(self) -> FrameVariables:
        """The variables with the values that they have now."""
        return FrameVariables(copy(self.frame), self.names, as_values=True)

    def named(self, names: tuple[str, ...], location: int, *, must_have_field: bool) -> Expr | None:
        if len(names) > 3:
            return None
        item, used = find_name(self.names, names)
        if item is None:
            return None
        if used == len(names):
            return self._variable(item.number, location)
        if item.kind is ItemKind.REC and used == len(names) - 1:
            return self._field(item.number, names[-1], location)
        return None

    def fields_at(self, places: Mapping[int, tuple[int, str | None]]) -> list[int] | None:
        """The types of the fields of records among the variables at places; None: there is a whole row, too."""
        typoids = []
        for number, field in places.values():
            datum = self.frame.code.function.datums[number]
            if isinstance(datum, Rec):
                if field is None:
                    return None
                typoids.append(int(field_of(self.frame, datum, field)[0]))
        return typoids

    def found_at(self, places: Mapping[int, tuple[int, str | None]]) -> None:
        """Note the variables at places as looked up."""
        self.places.update(places)
        datums = self.frame.code.function.datums
        for number, _ in places.values():
            datum = datums[number]
            if isinstance(datum, Rec) and datum.type.oid == oids.RECORD:
                self.records.add(number)

    def value(self, node: Variable) -> Const:
        """The value of a variable as a constant."""
        value = self.frame[node.number]
        if node.field is not None and value is not None:
            datum = self.frame.code.function.datums[node.number]
            assert isinstance(datum, Rec)
            value = value[field_of(self.frame, datum, node.field)[3]]
        return Const(node.type, typmod=node.typmod, collation=node.collation, location=node.location, value=value)

    def number_at(self, location: int) -> int:
        return self.places[location][0] + 1

    def starred(self, names: tuple[str, ...], location: int) -> Expr | None:
        if len(names) > 2:
            return None
        item, used = find_name(self.names, names)
        if item is None or item.kind is not ItemKind.REC or used != len(names):
            return None
        return self._variable(item.number, location)

    def numbered(self, number: int, location: int) -> Expr | None:
        item, _ = find_name(self.names, (f"${number}",))
        return None if item is None else self._variable(item.number, location)

    def _variable(self, number: int, location: int) -> Expr:
        datum = self.frame.code.function.datums[number]
        assert isinstance(datum, (Var, Rec))
        self.places[location] = number, None
        kind = datum.type
        if kind.oid == oids.RECORD:
            self.records.add(number)
        if self.as_values:
            value = self.frame[number]
            return Const(kind.oid, typmod=kind.typmod, collation=kind.collation, location=location, value=value)
        return Variable(kind.oid, typmod=kind.typmod, collation=kind.collation, location=location, number=number)

    def _field(self, number: int, name: str, location: int) -> Expr:
        datum = self.frame.code.function.datums[number]
        assert isinstance(datum, Rec)
        self.places[location] = number, name
        typoid, typmod, collation, place = field_of(self.frame, datum, name)
        if datum.type.oid == oids.RECORD:
            self.records.add(number)
        if self.as_values:
            record = self.frame[number]
            value = None if record is None else record[place]
            return Const(typoid, typmod=typmod, collation=collation, location=location, value=value)
        return Variable(typoid, typmod=typmod, collation=collation, location=location, number=number, field=name)


def field_of(frame: Frame, datum: Rec, name: str) -> tuple[int, int, int, int]:
    """Type, modifier, collation and place of a record's field."""
    if datum.type.oid == oids.RECORD:
        record: Record | None = frame[datum.number]
        if record is None:
            raise not_assigned(datum)
        if name not in record.names:
            raise no_field(datum, name)
        place = record.names.index(name)
        typoid = record.types[place]
        return typoid, -1, lookup.collation(typoid), place
    if datum.type.is_gone:
        raise missing_type(datum.type)
    columns = [a for a in lookup.row_attributes(frame.session, lookup.base(datum.type.oid)) if not a.dropped]
    for place, column in enumerate(columns):
        if column.name == name:
            return column.type, column.typmod, column.collation, place
    raise no_field(datum, name)


def not_assigned(datum: Rec) -> PgError:
    detail = "The tuple structure of a not-yet-assigned record is indeterminate."
    return RecordError("55000", f'record "{datum.name}" is not assigned yet', detail=detail)


def no_field(datum: Rec, name: str) -> PgError:
    return RecordError("42703", f'record "{datum.name}" has no field "{name}"')
