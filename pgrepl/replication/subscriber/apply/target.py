"""The target table of a published one: found by name, its columns matched by name, its rows by their replica identity.

A value is converted through its text form: the output function of the publisher's type, then the input function of the
column's; with `binary = true` through its binary form. Between equal types nothing is converted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.indexes import identity_or_primary_key
from pgrepl.catalog.relation import Attribute, Relation, find_relation
from pgrepl.catalog.subscription import check_subscription_relkind
from pgrepl.errors import PgError
from pgrepl.expr.context import Context
from pgrepl.expr.defaults import column_default
from pgrepl.expr.evaluate import Compiled, compile
from pgrepl.expr.walk import contains_mutable_functions
from pgrepl.frozen import frozen
from pgrepl.replication.subscriber.apply.progress import Progress
from pgrepl.replication.wire.binary_values import TEXTS, BinaryValue
from pgrepl.replication.wire.messages import UNCHANGED, Row, SentRelation
from pgrepl.replication.wire.text import WIRE_STYLE
from pgrepl.sql.nodes.expr import RangeVar
from pgrepl.types.binary import BinaryMessage, Receive, Send, receiver, receives, sends
from pgrepl.types.encodings import UTF8, text_to_bytes
from pgrepl.types.style import TextStyle
from pgrepl.types.text import Reader, reader, writer

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


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
        self.places = match_columns(self.relation, sent)
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
        found = []
        for n, attribute in enumerate(self.relation.attributes):
            if self.places[n] >= 0 or attribute.dropped or attribute.generated:
                continue
            expr = column_default(self._session, self.relation, attribute)
            if expr is not None:
                found.append(_Default(n, compile(expr, context), not contains_mutable_functions(expr)))
        return found

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
        if (sent.type, sent.typmod) == (local.type, local.typmod):
            return None
        style = self._session.text_style
        if binary and sent.sent_as != local.type:
            send, receive = sends(sent.sent_as), receives(local.type)
            if send is not None and receive is not None:
                if sent.text_of:
                    send = partial(_send_text, send, reader(sent.text_of))
                return partial(_received, send, receive, local.typmod, place, style)
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
    found = target_or_none(session, sent)
    if found is None:
        raise PgError("55000", f'logical replication target relation "{sent.qualified_name}" does not exist')
    check_subscription_relkind(found)
    return found


def differing_types(local: Relation, sent: SentRelation) -> bool:
    """Whether a column has another type than the value sent for it."""
    places = match_columns(local, sent)
    return any(
        place >= 0 and sent.columns[place].sent_as != attribute.type
        for place, attribute in zip(places, local.attributes, strict=True)
    )


def match_columns(local: Relation, sent: SentRelation) -> tuple[int, ...]:
    """The place among the sent columns of each column of the table, by number; -1: not sent."""
    numbers = {column.name: n for n, column in enumerate(sent.columns)}
    missing = dict(numbers)
    places = []
    for attribute in local.attributes:
        place = -1 if attribute.dropped or attribute.generated else numbers.get(attribute.name, -1)
        places.append(place)
        missing.pop(attribute.name if place >= 0 else "", None)
    if missing:
        named = ", ".join(f'"{name}"' for name in missing)
        columns = "column" if len(missing) == 1 else "columns"
        raise PgError(
            "55000",
            f'logical replication target relation "{sent.qualified_name}" is missing replicated {columns}: {named}',
        )
    return tuple(places)


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
