"""Messages for a partitioned table, divided among its leaves: each leaf is then a table like others.

A row is looked for in the leaf that its old key, or else its new row, is routed to. An UPDATE that moves a row to
another leaf is a DELETE in the one, which must find the row, and an INSERT in the other; where the message lacks a
value of the new row it is left to the exact way, and so is a row without a partition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.relation import Relation
from pgrepl.engine import Declined
from pgrepl.errors import PgError
from pgrepl.expr.partition_order import partition_desc
from pgrepl.frozen import frozen
from pgrepl.replication.subscriber.apply.columns.fold import NotClean
from pgrepl.replication.subscriber.apply.target import identity_of
from pgrepl.replication.subscriber.convert import MatchedColumns
from pgrepl.replication.wire.batch import DELETE, INSERT, UPDATE, Kept, RelationChanges
from pgrepl.rows.routing import Router
from pgrepl.types.lake_forms import form

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

    from pgrepl.catalog.session import Session

    Numbers = npt.NDArray[Any]

_NOWHERE = -1


@frozen
class LeafChanges:
    """The changes of a leaf. `left`: which of them delete a row that goes to another leaf."""

    leaf: Relation
    changes: RelationChanges
    left: Numbers | None


class SomeChanges:
    """Some messages of a relation, in order, as RelationChanges. `op`: what they do here."""

    def __init__(self, whole: RelationChanges, messages: Numbers, op: Numbers) -> None:
        self.relation = whole.relation
        self.seq, self.op = whole.seq[messages], op
        self.has_old = whole.has_old[messages] & (op != INSERT)
        self.unchanged: Mapping[int, Numbers] = {
            place: part for place, flags in whole.unchanged.items() if (part := flags[messages]).any()
        }
        self._whole = whole
        self._messages = messages

    @property
    def count(self) -> int:
        return len(self._messages)

    def with_kept(self, kept: Mapping[int, Kept]) -> RelationChanges:
        import numpy as np

        own = {}
        for place, each in kept.items():
            source = np.arange(self._whole.count)
            sent = self._messages[np.maximum(each.source, 0)]
            source[self._messages] = np.where(each.source < 0, each.source, sent)
            own[place] = Kept(source, each.stored, each.size)
        return SomeChanges(self._whole.with_kept(own), self._messages, self.op)

    def pick(self, places: Sequence[int], messages: Numbers, *, old: bool = False) -> list[pa.Array]:
        return self._whole.pick(places, self._messages[messages], old=old)

    def prepare(self, places: Sequence[int], most: int) -> None:
        self._whole.prepare(places, most)

    def fits(self, places: Sequence[int], most: int) -> bool:
        return self._whole.fits(places, most)


def by_leaf(session: Session, root: Relation, changes: RelationChanges, since: int) -> list[LeafChanges]:
    """The changes from sequence number `since` on. Raises NotClean for a message that moves a row of which it lacks a
    value, or whose row has no leaf."""
    import numpy as np

    matched = MatchedColumns(root, changes.relation)
    key = _key_columns(session, root)
    places = [matched.places[n - 1] for n in key]
    if any(place < 0 for place in places) or not all(matched.same_type(n) for n in key):
        raise Declined("a partition key that is not what is sent")
    if any(place in changes.unchanged for place in places):
        raise Declined("a partition key that was not sent")
    chosen = np.flatnonzero(changes.seq >= since)
    has_old, op = changes.has_old[chosen], changes.op[chosen]
    leaves = _Leaves(session, root, key)
    leaf = np.full(len(chosen), _NOWHERE, np.int64)
    leaf[~has_old] = leaves.of(changes, places, chosen[~has_old], old=False)
    leaf[has_old] = leaves.of(changes, places, chosen[has_old], old=True)
    to = leaf.copy()
    changed = np.flatnonzero(has_old & (op == UPDATE))
    to[changed] = leaves.of(changes, places, chosen[changed], old=False)
    moves = to != leaf
    wrong = (leaf == _NOWHERE) | (to == _NOWHERE)
    if matched.unsent:
        wrong |= moves
    for flags in changes.unchanged.values():
        wrong |= moves & flags[chosen]
    if wrong.any():
        raise NotClean(int(changes.seq[chosen[wrong]][0]))
    found: list[LeafChanges] = []
    for number, one in enumerate(leaves.found):
        left = moves & (leaf == number)
        here = np.flatnonzero((leaf == number) | (to == number))
        if not len(here):
            continue
        does = op.copy()
        does[moves], does[left] = INSERT, DELETE
        if (does[here] != INSERT).any():
            _check_identity(session, root, one, key, changes)
        found.append(LeafChanges(one, SomeChanges(changes, chosen[here], does[here]), left[here]))
    return found


def _key_columns(session: Session, table: Relation) -> list[int]:
    """The columns of the partition keys of the table and of the partitioned tables below, by their numbers in the
    table."""
    from pgrepl.catalog.relation import relation

    desc = partition_desc(session, table.oid)
    if any(column.expr is not None for column in desc.key.columns):
        raise Declined("a partition key of expressions")
    found = {column.attnum for column in desc.key.columns}
    for oid in desc.oids:
        part = relation(session, oid)
        if part.kind == "p":
            names = {a.name: a.num for a in table.columns}
            found |= {names[part.attributes[n - 1].name] for n in _key_columns(session, part)}
    return sorted(found)


def _check_identity(
    session: Session, root: Relation, leaf: Relation, key: Sequence[int], changes: RelationChanges
) -> None:
    """A row has to be told by what says which leaf it is in."""
    identity = identity_of(session, leaf, MatchedColumns(leaf, changes.relation).places, changes.relation)
    names = {leaf.attributes[n - 1].name for n in identity.attnums}
    if not identity.by_index or not {root.attributes[n - 1].name for n in key} <= names:
        raise Declined("rows that are found without their partition key")


class _Leaves:
    """Routes messages to leaves, once for each distinct value of the partition key."""

    def __init__(self, session: Session, root: Relation, key: Sequence[int]) -> None:
        self.found: list[Relation] = []
        self._router = Router(session, root)
        self._root = root
        self._key = key
        self._numbers: dict[int, int] = {}  # by oid

    def of(self, changes: RelationChanges, places: Sequence[int], messages: Numbers, *, old: bool) -> Numbers:
        """The number of each message's leaf in `found`, or _NOWHERE."""
        import numpy as np
        import pyarrow as pa

        if not len(messages):
            return np.empty(0, np.int64)
        codes = np.zeros(len(messages), np.int64)
        values: list[list[Any]] = []
        sizes: list[int] = []
        for place, array in zip(places, changes.pick(places, messages, old=old), strict=True):
            column = changes.relation.columns[place]
            try:
                encoded = array.dictionary_encode(null_encoding="encode")
            except pa.ArrowNotImplementedError:
                raise Declined("the type of a partition key") from None
            values.append(form(column.type, column.typmod).from_array(encoded.dictionary))
            sizes.append(len(encoded.dictionary))
            codes = codes * sizes[-1] + encoded.indices.to_numpy(zero_copy_only=False)
            if np.prod([float(size) for size in sizes]) >= 2**62:
                raise Declined("partition keys of too many columns")
        order = np.argsort(codes, kind="stable")
        first = np.append(True, np.diff(codes[order]) != 0)
        routed = [self._route(values, sizes, code) for code in codes[order][first].tolist()]
        found = np.empty(len(messages), np.int64)
        found[order] = np.array(routed, np.int64)[np.cumsum(first) - 1]
        return found

    def _route(self, values: Sequence[Sequence[Any]], sizes: Sequence[int], code: int) -> int:
        row: list[Any] = [None] * len(self._root.attributes)
        for attnum, of_column, size in zip(reversed(self._key), reversed(values), reversed(sizes), strict=True):
            code, place = divmod(code, size)
            row[attnum - 1] = of_column[place]
        try:
            leaf, _ = self._router.route(tuple(row))
        except PgError:
            return _NOWHERE
        if leaf.oid not in self._numbers:
            self._numbers[leaf.oid] = len(self.found)
            self.found.append(leaf)
        return self._numbers[leaf.oid]
