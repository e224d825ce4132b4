"""Messages for a partitioned table, divided among its leaves: each leaf is then a table like others. The tree of
partitions is plain data, so that kernels route rows, too.

A row is looked for in the leaf that its old key, or else its new row, is routed to. An UPDATE that moves a row to
another leaf is a DELETE in the one, which must find the row, and an INSERT in the other; where the message lacks a
value of the new row it is left to the exact way, and so is a row without a partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.relation import Relation, relation
from pgrepl.expr.partition_constraint import PartitionDesc, partition_desc
from pgrepl.ground.errors import Declined
from pgrepl.ground.frozen import frozen
from pgrepl.ground.lazy import np, pa
from pgrepl.replication.subscriber.apply.columns.decide import LeafChanges
from pgrepl.replication.subscriber.apply.columns.fold import NotClean
from pgrepl.replication.subscriber.apply.target import MatchedColumns, identity_of
from pgrepl.replication.wire.batch import DELETE, INSERT, UPDATE, Kept, RelationChanges
from pgrepl.rows.checks_table import Choose, chooser
from pgrepl.types.lake.forms import form

if TYPE_CHECKING:
    import numpy.typing as npt

    from pgrepl.catalog.session.session import Session
    from pgrepl.replication.wire.messages import SentRelation

    Numbers = npt.NDArray[Any]

_NOWHERE = -1


@frozen
class PartitionLevel:
    """A partitioned table. `key`: its partition key, by the columns' numbers in the root. `parts`: in the order of
    `desc`, a partitioned table, or the OID of a leaf."""

    desc: PartitionDesc
    key: tuple[int, ...]
    parts: tuple[PartitionLevel | int, ...]

    def leaves(self) -> Iterable[int]:
        for part in self.parts:
            if isinstance(part, int):
                yield part
            else:
                yield from part.leaves()

    def keys(self) -> set[int]:
        """The columns of all partition keys, by their numbers in the root."""
        return set(self.key).union(*(part.keys() for part in self.parts if not isinstance(part, int)))


@frozen
class PartitionTree:
    """The partitions of a target. `key`: the columns of all partition keys, by number, and `places` those that are
    sent for them. `lacks_columns`: a new row of the target has columns that are not sent."""

    top: PartitionLevel
    key: tuple[int, ...]
    places: tuple[int, ...]
    lacks_columns: bool


def partition_tree(session: Session, root: Relation, sent: SentRelation) -> PartitionTree:
    """Declined: rows are not routed by what is sent."""
    matched = MatchedColumns(session, root, sent)
    top = _level(session, root, {column.name: column.num for column in root.columns})
    key = tuple(sorted(top.keys()))
    places = tuple([matched.places[n - 1] for n in key])
    if any(place < 0 for place in places) or not all(matched.same_type(n) for n in key):
        raise Declined("a partition key that is not what is sent")
    return PartitionTree(top, key, places, bool(matched.unsent))


def _level(session: Session, table: Relation, root: Mapping[str, int]) -> PartitionLevel:
    """`root`: the numbers of the root's columns by name."""
    desc = partition_desc(session, table.oid)
    if any(column.expr is not None for column in desc.key.columns):
        raise Declined("a partition key of expressions")
    parts: list[PartitionLevel | int] = []
    for oid in desc.oids:
        part = relation(session, oid)
        parts.append(_level(session, part, root) if part.kind == "p" else oid)
    key = tuple([root[table.attributes[column.attnum - 1].name] for column in desc.key.columns])
    return PartitionLevel(desc, key, tuple(parts))


def check_identity(session: Session, root: Relation, tree: PartitionTree, leaf: int, sent: SentRelation) -> None:
    """Rows of the leaf have to be found by a key that says in which leaf they are."""
    table = relation(session, leaf)
    identity = identity_of(session, table, MatchedColumns(session, table, sent).places, sent)
    names = {table.attributes[n - 1].name for n in identity.attnums}
    if not identity.by_index or not {root.attributes[n - 1].name for n in tree.key} <= names:
        raise Declined("rows that are found without their partition key")


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
        own = {}
        for place, values_kept in kept.items():
            source = np.arange(self._whole.count)
            sent = self._messages[np.maximum(values_kept.source, 0)]
            source[self._messages] = np.where(values_kept.source < 0, values_kept.source, sent)
            own[place] = Kept(source, values_kept.stored, values_kept.size)
        return SomeChanges(self._whole.with_kept(own), self._messages, self.op)

    def pick(self, places: Sequence[int], messages: Numbers, *, old: bool = False) -> list[pa.Array]:
        return self._whole.pick(places, self._messages[messages], old=old)

    def prepare(self, places: Sequence[int], most: int) -> None:
        self._whole.prepare(places, most)

    def fits(self, places: Sequence[int], most: int) -> bool:
        return self._whole.fits(places, most)


def by_leaf(
    tree: PartitionTree, changes: RelationChanges, since: int, check: Callable[[int], None]
) -> list[LeafChanges]:
    """The changes from sequence number `since` on. `check` raises for a leaf whose rows cannot be looked for. Raises
    NotClean for a message that moves a row of which it lacks a value, or whose row has no leaf."""
    if any(place in changes.unchanged for place in tree.places):
        raise Declined("a partition key that was not sent")
    chosen = np.flatnonzero(changes.seq >= since)
    has_old, op = changes.has_old[chosen], changes.op[chosen]
    leaves = _Leaves(tree)
    leaf = np.full(len(chosen), _NOWHERE, np.int64)
    leaf[~has_old] = leaves.of(changes, chosen[~has_old], old=False)
    leaf[has_old] = leaves.of(changes, chosen[has_old], old=True)
    to = leaf.copy()
    changed = np.flatnonzero(has_old & (op == UPDATE))
    to[changed] = leaves.of(changes, chosen[changed], old=False)
    moves = to != leaf
    wrong = (leaf == _NOWHERE) | (to == _NOWHERE)
    if tree.lacks_columns:
        wrong |= moves
    for flags in changes.unchanged.values():
        wrong |= moves & flags[chosen]
    if wrong.any():
        raise NotClean(int(changes.seq[chosen[wrong]][0]))
    changes_of_leaves: list[LeafChanges] = []
    for one in np.unique(np.concatenate([leaf, to])).tolist():
        left = moves & (leaf == one)
        here = np.flatnonzero((leaf == one) | (to == one))
        does = op.copy()
        does[moves], does[left] = INSERT, DELETE
        if (does[here] != INSERT).any():
            check(one)
        changes_of_leaves.append(LeafChanges(one, SomeChanges(changes, chosen[here], does[here]), left[here]))
    return changes_of_leaves


class _Leaves:
    """Routes messages to leaves, once for each distinct value of the partition key."""

    def __init__(self, tree: PartitionTree) -> None:
        self._tree = tree
        self._choosers: dict[int, Choose] = {}  # by the level's id

    def of(self, changes: RelationChanges, messages: Numbers, *, old: bool) -> Numbers:
        """The OID of each message's leaf, or _NOWHERE."""
        if not len(messages):
            return np.empty(0, np.int64)
        codes = np.zeros(len(messages), np.int64)
        values: list[list[Any]] = []
        sizes: list[int] = []
        places = self._tree.places
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
        routed = [self._routed(values, sizes, code) for code in codes[order][first].tolist()]
        oids = np.empty(len(messages), np.int64)
        oids[order] = np.array(routed, np.int64)[np.cumsum(first) - 1]
        return oids

    def _routed(self, values: Sequence[Sequence[Any]], sizes: Sequence[int], code: int) -> int:
        row: dict[int, Any] = {}
        for attnum, of_column, size in zip(reversed(self._tree.key), reversed(values), reversed(sizes), strict=True):
            code, place = divmod(code, size)
            row[attnum] = of_column[place]
        part: PartitionLevel | int = self._tree.top
        while not isinstance(part, int):
            position = self._chooser(part)([row[n] for n in part.key])
            if position < 0:
                return _NOWHERE
            part = part.parts[position]
        return part

    def _chooser(self, level: PartitionLevel) -> Choose:
        if id(level) not in self._choosers:
            self._choosers[id(level)] = chooser(level.desc)
        return self._choosers[id(level)]
