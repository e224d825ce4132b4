"""The messages of pgoutput for a record, by the plan of the declared table that it names.

The table's types read the values, its replica identity says which old columns are sent. A record that does not fit its
table is an error that names the record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.relation import Attribute, Relation, find_relation, relation
from pgrepl.catalog.facts.relation_parts import identity_key_columns, inheritors
from pgrepl.ground.errors import PgError
from pgrepl.replication.formats.event import BadRecord, ChangeEvent, RecordPlace
from pgrepl.replication.publisher.plan import SendPlan, TableMessages, check_sendable, send_plan, truncated
from pgrepl.replication.wire.messages import DELETE, INSERT, TRUNCATE, UNCHANGED, UPDATE, Message, TruncateMessage
from pgrepl.replication.wire.values import WIRE_STYLE
from pgrepl.rows.checks_table import Router
from pgrepl.sql.nodes.expr import RangeVar
from pgrepl.types.builtin import base_type_and_typmod
from pgrepl.types.input_checks import nul
from pgrepl.types.text import Reader, reader

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.types.style import TextStyle

Row = tuple[Any, ...]
DEFAULT_SCHEMA = "public"


class NotSendable(Exception):
    """The publisher would refuse the operation, or its publications: no fault of a record."""

    def __init__(self, error: PgError) -> None:
        super().__init__(error.message)
        self.error = error


class Declarations:
    """The tables that a database declares, as its publications publish them at present."""

    def __init__(
        self,
        session: Session,
        publications: Sequence[str],
        *,
        ignores_undeclared: bool,
        omits_nulls: bool = False,
        usual: tuple[str | None, str] | None = None,
    ) -> None:
        """`ignores_undeclared`: columns that the table does not have are left out. `omits_nulls`: a column that is
        missing in a whole old row is NULL. `usual`: the table of records that name none."""
        self.omits_nulls = omits_nulls
        self._usual = usual
        self._session = session
        self._names = tuple(publications)
        self.ignores_undeclared = ignores_undeclared
        self._tables: dict[tuple[str | None, str | None], DeclaredTable] = {}
        self.style = replace(WIRE_STYLE, lookup=session.text_style.lookup)

    def table(self, schema: str | None, name: str | None) -> DeclaredTable:
        """The table that records name; PgError if it is not declared."""
        table = self._tables.get((schema, name))
        if table is None:
            table = self._tables[schema, name] = self._found(schema, name)
        return table

    def _found(self, schema: str | None, name: str | None) -> DeclaredTable:
        if name is None and self._usual is not None:
            schema, name = self._usual
        if name is None:
            raise PgError("42P01", "it does not name its table", hint="Set table=NAME in the connection string.")
        named = find_relation(self._session, RangeVar(name, schema or DEFAULT_SCHEMA), missing_ok=True)
        if named is None or named.kind not in ("r", "p"):
            raise PgError(
                "42P01",
                f'relation "{schema or DEFAULT_SCHEMA}.{name}" does not exist in database '
                f'"{self._session.database.name}"',
                hint="The database that the connection string names has to declare the tables of the files.",
            )
        return self._declared(named)

    def _declared(self, table: Relation) -> DeclaredTable:
        plan = self.plan(table.oid)
        leaves = None
        if table.kind == "p" and plan is None:
            leaves = _Leaves(self, self._session, table)
        return DeclaredTable(self, table, plan, leaves)

    def plan(self, relid: int) -> SendPlan | None:
        try:
            return send_plan(self._session, self._names, relid)
        except PgError as error:
            raise NotSendable(error) from None

    def check_sendable(self, plan: SendPlan, operation: str) -> None:
        try:
            check_sendable(self._session, plan, operation)
        except PgError as error:
            raise NotSendable(error) from None

    def key_places(self, table: Relation) -> list[int]:
        return [number - 1 for number in identity_key_columns(self._session, table)]

    def messages(self, event: ChangeEvent) -> Iterator[Message | TruncateMessage]:
        """The messages of one record; BadRecord or NotSendable."""
        try:
            table = self.table(event.schema, event.table)
        except PgError as error:
            raise bad_record(error, event.place) from None
        yield from table.messages(event)

    def of_relation(self, relid: int) -> DeclaredTable:
        return self._declared(relation(self._session, relid))

    def truncates(self, table: Relation) -> TruncateMessage | None:
        """The message of a TRUNCATE of the table, its partitions included."""
        emptied = [table.oid]
        if table.kind == "p":
            emptied += [oid for oid in inheritors(self._session, table.oid) if oid != table.oid]
        return truncated([self.plan(oid) for oid in emptied], cascade=False, restart_identity=False)

    def types(self, schema: str | None, name: str | None) -> Mapping[str, tuple[int, int]] | None:
        """See formats.event.ColumnTypes."""
        try:
            table = self.table(schema, name).relation
        except (PgError, NotSendable):
            return None
        return {column.name: base_type_and_typmod(column.type, column.typmod) for column in table.columns}


class _Leaves:
    """The partitions of a table that is not published as its root: each record is its leaf's."""

    def __init__(self, declared: Declarations, session: Session, table: Relation) -> None:
        self._declared = declared
        self._router = Router(session, table)
        self._known: dict[int, DeclaredTable] = {}

    def of(self, row: Row) -> tuple[DeclaredTable, Row]:
        leaf, there = self._router.route(row)
        if leaf.oid not in self._known:
            self._known[leaf.oid] = self._declared.of_relation(leaf.oid)
        return self._known[leaf.oid], there


class DeclaredTable:
    """`plan`: None if nothing of the table is published. `leaves`: if its rows are sent as those of its partitions."""

    def __init__(self, declared: Declarations, table: Relation, plan: SendPlan | None, leaves: _Leaves | None) -> None:
        self.relation = table
        self.plan = plan
        self.leaves = leaves
        self._declared = declared
        self._columns: dict[str, _Column] = {column.name: _Column(column) for column in table.columns}
        self._width = len(table.attributes)
        self._key = declared.key_places(table)
        self._style: TextStyle = declared.style
        self._messages = None if plan is None else TableMessages(plan)
        self._checked: set[str] = set()

    @property
    def is_published(self) -> bool:
        return self.plan is not None or self.leaves is not None

    def messages(self, event: ChangeEvent) -> Iterator[Message | TruncateMessage]:
        """The messages of one record; BadRecord or NotSendable."""
        try:
            if event.kind == TRUNCATE:
                message = self._declared.truncates(self.relation)
                if message is not None:
                    yield message
            elif self.is_published:
                yield from self._of_row(event)
        except BadRecord:
            raise
        except PgError as error:
            raise bad_record(error, event.place) from None

    def _of_row(self, event: ChangeEvent) -> Iterator[Message]:
        if self.plan is not None and event.kind not in self.plan.operations:
            return
        old, new = self._rows(event)
        if self.leaves is None:
            yield from self.sent(old, new)
            return
        before = None if old is None else self.leaves.of(old)
        after = None if new is None else self.leaves.of(new)
        if before is not None and after is not None and before[0] is not after[0]:  # it moves to another partition
            yield from before[0].sent(before[1], None)
            yield from after[0].sent(None, after[1])
            return
        leaf = (before or after)[0]  # type: ignore[index]
        yield from leaf.sent(None if before is None else before[1], None if after is None else after[1])

    def sent(self, old: Row | None, new: Row | None) -> Iterator[Message]:
        if self._messages is None:
            return
        operation = INSERT if old is None else DELETE if new is None else UPDATE
        self._check(operation)
        message = self._messages.message(old, new)
        if message is not None:
            if message.operation == INSERT and message.new is not None and UNCHANGED in message.new:
                column = message.relation.columns[message.new.index(UNCHANGED)].name
                raise PgError("22000", f'column "{column}" was not sent, and its row enters the row filter')
            yield message

    def _check(self, operation: str) -> None:
        if operation == INSERT or operation in self._checked or self.plan is None:
            return
        if operation in self.plan.operations:
            self._declared.check_sendable(self.plan, operation)
        self._checked.add(operation)

    # --- rows ---------------------------------------------------------------------------------------------------------

    def _rows(self, event: ChangeEvent) -> tuple[Row | None, Row | None]:
        if event.kind == INSERT:
            return None, self._row(event.new or {}, None)
        if event.kind == DELETE:
            old = self._old(self._old_of(event))
            return tuple([None if value is UNCHANGED else value for value in self._complete(old, None)]), None
        if event.new is None:
            raise PgError("22000", "an update without its new row")
        new = self._row(event.new, UNCHANGED)
        if event.old is None:
            self._check_is_whole()
            return self._complete(new, None), new
        old = self._old(event.old)
        old, new = self._complete(old, new), self._complete(new, old)
        if UNCHANGED in new and self._is_whole:
            new = tuple([before if value is UNCHANGED else value for value, before in zip(new, old, strict=True)])
        return tuple([None if value is UNCHANGED else value for value in old]), new

    @staticmethod
    def _old_of(event: ChangeEvent) -> Mapping[str, str | None]:
        if event.old is None:
            raise PgError("22000", "a delete without the key of its row")
        return event.old

    @property
    def _is_whole(self) -> bool:
        return self.relation.replident == "f"

    def _check_is_whole(self) -> None:
        if self._is_whole:
            raise PgError(
                "22000",
                f'an update without its old row, which REPLICA IDENTITY FULL of table "{self.relation.name}" asks for',
            )

    def _old(self, values: Mapping[str, str | None]) -> Row:
        return self._row(values, None if self._is_whole and self._declared.omits_nulls else UNCHANGED)

    def _row(self, values: Mapping[str, str | None], unsent: Any) -> Row:
        row: list[Any] = [unsent] * self._width
        for name, text in values.items():
            column = self._columns.get(name)
            if column is None:
                if self._declared.ignores_undeclared:
                    continue
                raise undeclared(self.relation, name)
            if column.is_read:
                row[column.at] = None if text is None else self._value(column, text)
        return tuple(row)

    def _value(self, column: _Column, text: str) -> Any:
        try:
            if "\0" in text:
                raise nul()
            return column.read(text, column.typmod, self._style)
        except PgError as error:
            raise in_column(error, column.name) from None

    def _complete(self, row: Row, other: Row | None) -> Row:
        """The row with the columns of the replica identity, which do not change unless the record says so."""
        needed = self.identity
        if all(row[n] is not UNCHANGED for n in needed):
            return row
        completed = list(row)
        for n in needed:
            if completed[n] is UNCHANGED:
                if other is None or other[n] is UNCHANGED or self._is_whole:
                    name = self.relation.attributes[n].name
                    raise PgError("22000", f'column "{name}" of the replica identity is missing')
                completed[n] = other[n]
        return tuple(completed)

    @property
    def identity(self) -> list[int]:
        """The places of the columns by which old rows are told."""
        if self._is_whole:
            return [column.at for column in self._columns.values() if column.is_read]
        return self._key


class _Column:
    def __init__(self, attribute: Attribute) -> None:
        self.name = attribute.name
        self.at = attribute.num - 1
        self.typmod = attribute.typmod
        self.is_read = not attribute.generated
        self.read: Callable[[str, int, TextStyle], Any] = _Reading(attribute.type)


class _Reading:
    """A type's input function, looked up when a value comes."""

    def __init__(self, typoid: int) -> None:
        self._typoid = typoid
        self._read: Reader | None = None

    def __call__(self, text: str, typmod: int, style: TextStyle) -> Any:
        if self._read is None:
            self._read = reader(self._typoid)
        return self._read(text, typmod, style)


def undeclared(table: Relation, name: str) -> PgError:
    return PgError(
        "42703",
        f'column "{name}" of relation "{table.qualified_name}" does not exist',
        hint="Add the column to the declared table; or set undeclared_columns=ignore in the connection string.",
    )


def in_column(error: PgError, name: str) -> PgError:
    return PgError(error.sqlstate, f'column "{name}": {error.message}', detail=error.report.detail)


def bad_record(error: PgError, place: RecordPlace) -> BadRecord:
    bad = BadRecord(error.sqlstate, error.message, place)
    bad.report = replace(bad.report, detail=error.report.detail, hint=error.report.hint)
    return bad
