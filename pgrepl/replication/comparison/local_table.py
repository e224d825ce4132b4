"""A subscriber's table as the columns that are compared: their hashes, their texts, and what sent rows become here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.relation import Attribute, Relation
from pgrepl.catalog.facts.relation_parts import identity_or_primary_key
from pgrepl.expr.partition_constraint import leaf_partitions
from pgrepl.ground.lazy import pa
from pgrepl.lake.read.bounds import Bound
from pgrepl.lake.read.extent import rows_of
from pgrepl.lake.read.local import pin
from pgrepl.lake.table import LakeTable, lake_table
from pgrepl.replication.comparison.found import Texts
from pgrepl.replication.subscriber.apply.progress import Progress
from pgrepl.replication.subscriber.apply.target import TargetTable
from pgrepl.replication.wire.messages import SentRelation
from pgrepl.replication.wire.text import wire_style
from pgrepl.rows.unique import unique_indexes
from pgrepl.types.builtin import base_type
from pgrepl.types.lake.column_text import column_text
from pgrepl.types.text import writer

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.lake.read.part import PartRows
    from pgrepl.types.lake.arrays import Form


@dataclass(frozen=True)
class Portion:
    """Rows as columns in the order of those that are compared."""

    arrays: list[Any]
    forms: list[Form]
    count: int


class LocalTable:
    """The table here that a relation's changes are applied to. `attributes`: those of its columns that are sent, in the
    order in which they are sent."""

    def __init__(self, session: Session, sent: SentRelation) -> None:
        self.session = session
        self.sent = sent
        self._target = TargetTable(session, sent, Progress(""))
        self.relation: Relation = self._target.relation
        by_place = {place: n for n, place in enumerate(self._target.places) if place >= 0}
        self._numbers = [by_place[place] for place in range(len(sent.columns))]
        self.attributes: list[Attribute] = [self.relation.attributes[n] for n in self._numbers]
        self.style = wire_style(session)
        self._write = [writer(base_type(attribute.type)) for attribute in self.attributes]
        with_leaves = leaf_partitions(session, self.relation.oid) if self.relation.kind == "p" else [self.relation]
        self.leaves = [leaf for leaf in with_leaves if leaf.kind == "r"]

    @property
    def key(self) -> tuple[int, ...]:
        """The places of the columns by which changes find a row; none: by the whole row, or the key is not sent."""
        index = identity_or_primary_key(self.session, self.relation)
        if index is None:
            return ()
        names = {attribute.num: place for place, attribute in enumerate(self.attributes)}
        places = [names.get(number, -1) for number in index.indkey[: index.indnkeyatts]]
        return tuple(places) if -1 not in places else ()

    @property
    def unique(self) -> list[list[int]]:
        """The places of the columns of each unique index."""
        names = {attribute.num: place for place, attribute in enumerate(self.attributes)}
        indexes = [info.columns[: info.key_count] for info in unique_indexes(self.session, self.relation)]
        return [[names[number] for number in columns] for columns in indexes if set(columns) <= set(names)]

    @property
    def is_whole(self) -> bool:
        """Are all columns sent that have values of their own?"""
        return len(self.attributes) >= sum(not column.generated for column in self.relation.columns)

    def becomes(self, row: Texts) -> list[Any]:
        """The values that a sent row has here, as replication would convert them."""
        stored = self._target.store(row)
        return [stored[n] for n in self._numbers]

    def texts_of(self, values: Sequence[Any]) -> Texts:
        return tuple(
            [None if v is None else write(v, self.style) for v, write in zip(values, self._write, strict=True)]
        )

    def lake_columns(self) -> tuple[LakeTable, list[int]] | None:
        """A table of the lake that keeps the rows, and the numbers of the compared columns there; None: there is none,
        as there are no partitions."""
        if not self.leaves:
            return None
        leaf = self.leaves[0]
        return lake_table(self.session, leaf.oid), self._in(leaf)

    def _in(self, leaf: Relation) -> list[int]:
        numbers = {column.name: column.num for column in leaf.columns}
        return [numbers[attribute.name] for attribute in self.attributes]

    def portions(self, snapshot: int, bounds: tuple[int, Any, Any] | None = None) -> Iterator[Portion]:
        """The rows at a snapshot. `bounds`: a column's place with values outside of which rows may be left out."""
        for table, numbers, found in self.sources(snapshot, bounds):
            forms = [table.column(number).form for number in numbers]
            for rows, _, _ in found:
                for arrays, count in rows.portions(numbers):
                    yield Portion([arrays[number] for number in numbers], forms, count)

    def sources(
        self, snapshot: int, bounds: tuple[int, Any, Any] | None = None
    ) -> Iterator[tuple[LakeTable, list[int], list[tuple[PartRows, int, int]]]]:
        """The tables of the lake with the rows of `portions`: the numbers of the compared columns, and the rows."""
        pin(self.session, snapshot)
        for leaf in self.leaves:
            table, numbers = lake_table(self.session, leaf.oid, snapshot), self._in(leaf)
            wanted = () if bounds is None else (Bound(numbers[bounds[0]], low=bounds[1], high=bounds[2]),)
            yield table, numbers, rows_of(self.session, table, snapshot, numbers, wanted)

    def portion_texts(self, portion: Portion, chosen: Any) -> list[Texts]:
        """The texts of some rows of a portion. `chosen`: their indices."""
        indices = pa.array(chosen)
        columns = [
            column_text(array.take(indices), attribute.type, form, self.style).to_pylist()
            for array, form, attribute in zip(portion.arrays, portion.forms, self.attributes, strict=True)
        ]
        return list(zip(*columns, strict=True)) if columns else [()] * len(chosen)
