"""Both sides of a comparison.

Here: a subscriber's table as the columns that are compared, their hashes and their texts. There: digests of pieces, and
the rows of some, from a server that hashes by itself, or from rows that are read and become columns as they do here.
Parts of the rows of a large table in a lake are hashed by threads here, or by tasks of Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from pgrepl.catalog.facts.relation import Attribute, Relation
from pgrepl.catalog.facts.relation_parts import identity_or_primary_key
from pgrepl.engine import choice, run_kernels, spark
from pgrepl.engine.choice import Engine
from pgrepl.engine.copy_rows import CopyPart, RowMaker, RowsCopy
from pgrepl.expr.partition_constraint import leaf_partitions
from pgrepl.ground.errors import Declined
from pgrepl.ground.frozen import frozen
from pgrepl.ground.interrupts import check_for_interrupts
from pgrepl.ground.lazy import np, pa
from pgrepl.lake.read.bounds import Bound
from pgrepl.lake.read.extent import divide, rows_of
from pgrepl.lake.read.local import pin
from pgrepl.lake.read.part import PartWatch, Shared, forms_of
from pgrepl.lake.table import LakeTable, lake_table
from pgrepl.replication.comparison.columns import HashedColumn, hashed, hashed_as, row_hash_sql, row_hashes
from pgrepl.replication.comparison.found import Texts
from pgrepl.replication.comparison.pieces import Digests, HashPieces, KeyPieces, Pieces, is_divisible
from pgrepl.replication.subscriber.apply.progress import Progress
from pgrepl.replication.subscriber.apply.target import TargetTable
from pgrepl.replication.subscriber.copying.columns import made_column
from pgrepl.replication.wire.messages import SentRelation
from pgrepl.replication.wire.values import wire_style
from pgrepl.rows.unique import unique_indexes
from pgrepl.types.builtin import base_type
from pgrepl.types.lake.arrays import plain_array
from pgrepl.types.lake.column_text import column_text
from pgrepl.types.lake.forms import form
from pgrepl.types.names import asks_catalog
from pgrepl.types.text import writer

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.engine.choice import Choice
    from pgrepl.engine.copy_rows import KernelColumn
    from pgrepl.engine.run_kernels import KernelSource
    from pgrepl.lake.read.part import PartRows
    from pgrepl.replication.comparison.pieces import Hashes
    from pgrepl.replication.publisher.tables import HashingServer, TableAtLsn
    from pgrepl.types.lake.arrays import Form

Row = tuple[int, Texts]  # a row's hash, and the texts that are sent of it
Count = Callable[[int], None]  # counts more rows
PIECE = 16_384  # rows of a piece, about
_MOST_PIECES = 4096
_READ = 4096  # rows that are converted at a time
Rows = Sequence[tuple["PartRows", int, int]]


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
        for table, numbers, files in self.sources(snapshot, bounds):
            forms = [table.column(number).form for number in numbers]
            for rows, _, _ in files:
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


class Side(Protocol):
    columns: list[HashedColumn]
    pieces: Pieces
    is_apart: bool  # whether digests may be asked for in another thread

    def digests(self, wanted: Collection[int], digests: Digests, count: Count) -> Generator[int, None, None]:
        """Fill in the digests of some pieces; the numbers of those that are complete, as they come."""

    def rows(self, wanted: Sequence[int]) -> Iterator[Row]:
        """The rows of some pieces."""

    def stop(self) -> None:
        """Nobody waits for the digests any more."""
        ...


def side_of(table: TableAtLsn, local: LocalTable, seed: int) -> Side:
    if table.server is not None and len(local.attributes):
        pairs = zip(table.relation.columns, local.attributes, strict=True)
        columns = [hashed_as(sent, attribute) for sent, attribute in pairs]
        if None not in columns:
            return _HashingSide(table, table.server, local, [column for column in columns if column is not None], seed)
    return _ReadSide(table, local, seed)


# --- a server that hashes ---------------------------------------------------------------------------------------------


class _HashingSide:
    is_apart = True

    def __init__(
        self, table: TableAtLsn, server: HashingServer, local: LocalTable, columns: list[HashedColumn], seed: int
    ) -> None:
        self.columns = columns
        self._server = server
        self._hash = row_hash_sql(columns, table.relation.columns, seed, server.identifier)
        self._ranges = _key_pieces(table, server, local)
        self._bits = HashPieces(bits_for(table.estimate))
        self.pieces: Pieces = self._ranges or self._bits
        self.stop = server.stop

    def digests(self, wanted: Collection[int], digests: Digests, count: Count) -> Generator[int, None, None]:
        if self._ranges is None:
            for piece in self._server.digests_by_bits(self._hash, self._bits.mask):
                digests.put(piece.number, piece.count, piece.total)
                count(piece.count)
            yield from wanted
            return
        asked = [(number, self._ranges.ranges[number]) for number in sorted(wanted)]
        for piece in self._server.digests_of_ranges(self._hash, asked):
            digests.put(piece.number, piece.count, piece.total)
            count(piece.count)
            yield piece.number

    def rows(self, wanted: Sequence[int]) -> Iterator[Row]:
        if self._ranges is None:
            hashed_rows = self._server.rows_by_bits(self._hash, self._bits.mask, wanted)
        else:
            hashed_rows = self._server.rows_of_ranges(self._hash, [self._ranges.ranges[number] for number in wanted])
        return ((hash % (1 << 64), row) for hash, row in hashed_rows)


def _key_pieces(table: TableAtLsn, server: HashingServer, local: LocalTable) -> KeyPieces | None:
    names = [column.name for column in table.relation.columns]
    key = tuple([names.index(name) for name in table.key if name in names])
    types = [table.relation.columns[place].sent_as for place in key]
    lake_columns = local.lake_columns()
    if not key or len(key) < len(table.key) or lake_columns is None:
        return None
    if not all(
        is_divisible(typoid) and is_divisible(local.attributes[n].type) for n, typoid in zip(key, types, strict=True)
    ):
        return None
    ranges = server.divide(table.key, PIECE)
    if ranges is None:
        return None
    lake, numbers = lake_columns
    forms = [lake.column(numbers[place]).form for place in key]
    return KeyPieces(key, types, forms, ranges, may_be_null=not all(local.attributes[place].notnull for place in key))


def bits_for(rows: int) -> int:
    """So many bits that pieces have about PIECE rows."""
    return min(max(rows // PIECE, 1), _MOST_PIECES).bit_length() - 1


# --- rows that are read -----------------------------------------------------------------------------------------------


class _ReadSide:
    is_apart = False

    def __init__(self, table: TableAtLsn, local: LocalTable, seed: int) -> None:
        self.columns = [hashed(attribute) for attribute in local.attributes]
        self.pieces: Pieces = HashPieces(bits_for(table.estimate))
        self._table, self._local, self._seed = table, local, seed
        try:
            self._sources: list[_Source] | None = [_Source(local, table, source) for source in table.sources()] or None
        except Declined:
            self._sources = None

    def digests(self, wanted: Collection[int], digests: Digests, count: Count) -> Generator[int, None, None]:
        choice = None if self._sources is None else chosen(self._local, self._table.estimate)
        if self._sources is not None and choice is not None:
            sources = [(source.part, source.rows()) for source in self._sources]
            how = self._local, sources, self.columns, self.pieces, self._seed
            digest_in_parts(*how, digests, choice.engine, count)
            yield from wanted
            return
        for portion, _ in self._portions():
            hashes = self._hashes(portion)
            digests.add(self.pieces.numbers((), hashes), hashes)
            count(portion.count)
        yield from wanted

    def rows(self, wanted: Sequence[int]) -> Iterator[Row]:
        for portion, texts in self._portions():
            hashes = self._hashes(portion)
            chosen = np.flatnonzero(np.isin(self.pieces.numbers((), hashes), wanted))
            if len(chosen):
                yield from zip(hashes[chosen].tolist(), texts(chosen), strict=True)

    def stop(self) -> None:
        """Digests are computed where they are asked for."""

    def _hashes(self, portion: Portion) -> Hashes:
        return row_hashes(self.columns, portion.arrays, portion.forms, self._seed, portion.count, self._local.style)

    def _portions(self) -> Iterator[tuple[Portion, Callable[[Any], list[Texts]]]]:
        """Rows as they ought to be here, each portion with what gives the texts that are sent of some rows."""
        if self._sources is not None:
            for source in self._sources:
                yield from source.portions()
            return
        forms = _forms(self._local)
        rows = self._table.texts()
        while some := list(islice(rows, _READ)):
            values = list(zip(*[self._local.becomes(row) for row in some], strict=True)) or [()] * len(forms)
            arrays = [plain_array(form.to_array(column)) for form, column in zip(forms, values, strict=True)]
            yield Portion(arrays, forms, len(some)), partial(_picked, some)


def _picked(rows: Sequence[Texts], chosen: Any) -> list[Texts]:
    return [rows[n] for n in chosen]


def _forms(local: LocalTable) -> list[Any]:
    lake_columns = local.lake_columns()
    if lake_columns is not None:
        lake, numbers = lake_columns
        return [lake.column(number).form for number in numbers]
    return [form(attribute.type, attribute.typmod) for attribute in local.attributes]


class _Source:
    """A table of a publisher's lake, whose columns become those of the table here in kernels."""

    def __init__(self, local: LocalTable, table: TableAtLsn, source: KernelSource) -> None:
        lake_columns = local.lake_columns()
        if lake_columns is None:
            raise Declined("a table without partitions")
        target, self._numbers = lake_columns
        self._local, self._source = local, source
        self._sent = table.sent.columns
        columns = [
            made_column(local.session, sent, target.column(number), attribute, place, [source])
            for place, (sent, attribute, number) in enumerate(
                zip(self._sent, local.attributes, self._numbers, strict=True)
            )
        ]
        columns = [
            column if column.computed is not None else _from(column, source.columns[column.source - 1])
            for column in columns
        ]
        self._forms = [target.column(number).form for number in self._numbers]
        self._maker = RowMaker(source.table, target, columns, None)
        filter = source.filter
        self.part = CopyPart((), source.table, filter, target, tuple(columns), None, (), "")
        self._filter = None if filter is None else filter.test(forms_of(source.table, filter.attnums))
        self._read = sorted({*source.columns, *(() if filter is None else filter.attnums)})

    def rows(self) -> Rows:
        return self._source.rows(self._read)

    def portions(self) -> Iterator[tuple[Portion, Callable[[Any], list[Texts]]]]:
        for rows, _, _ in self.rows():
            for arrays, count in rows.portions(self._read):
                kept = arrays
                if self._filter is not None:
                    mask = self._filter(arrays, count)
                    count = mask.true_count
                    kept = {attnum: array.filter(mask) for attnum, array in arrays.items()}
                if count:
                    arrays_made = self._maker.made(kept, count)
                    portion = Portion([arrays_made[number] for number in self._numbers], self._forms, count)
                    yield portion, partial(self._texts, kept)

    def _texts(self, arrays: Mapping[int, Any], chosen: Any) -> list[Texts]:
        indices, table = pa.array(chosen), self._source.table
        columns = [
            column_text(
                arrays[number].take(indices), sent.type, table.column(number).form, self._local.style
            ).to_pylist()
            for number, sent in zip(self._source.columns, self._sent, strict=True)
        ]
        return list(zip(*columns, strict=True)) if columns else [()] * len(chosen)


def _from(column: KernelColumn, source: int) -> KernelColumn:
    return replace(column, source=source, not_null=False)


# --- digests in parts -------------------------------------------------------------------------------------------------


@frozen
class _DigestPart:
    """`copy`: the rows, and how they become those that are compared."""

    copy: CopyPart
    how: Shared  # the hashed columns, the pieces, the seed, the style


@frozen
class _DigestedPart:
    """For each piece with rows its number, how many they are, and the sum of their hashes."""

    numbers: Any = ()
    counts: Any = ()
    sums: Any = ()
    declined: str = ""


def _digest_rows(part: _DigestPart, watch: PartWatch) -> _DigestedPart:
    columns, pieces, seed, style = part.how.value
    copy, digests = RowsCopy(part.copy, watch), Digests(pieces.count)
    forms = [part.copy.target.column(column.attnum).form for column in part.copy.columns]
    try:
        for rows in part.copy.rows:
            for arrays, count in rows.portions(part.copy.read):
                _, kept, left = copy.passing(arrays, count)
                if left:
                    watch.add(left, 0)
                    arrays_made = copy.made(kept, left)
                    hashes = row_hashes(columns, arrays_made, forms, seed, left, style)
                    digests.add(pieces.numbers([arrays_made[place] for place in pieces.key], hashes), hashes)
    except Declined as reason:
        return _DigestedPart(declined=str(reason))
    numbers = np.flatnonzero(digests.counts)
    return _DigestedPart(numbers, digests.counts[numbers], digests.sums[numbers])


def chosen(local: LocalTable, rows: int) -> Choice | None:
    """What hashes so many rows in parts, which must know the types without the catalog; None: nothing does."""
    if not local.attributes or any(asks_catalog(attribute.type) for attribute in local.attributes):
        return None
    how = choice.choose_hashes(local.session, rows)
    return None if how.engine is Engine.LOCAL else how


def digest_in_parts(
    local: LocalTable,
    sources: Sequence[tuple[CopyPart, Rows]],
    columns: Sequence[HashedColumn],
    pieces: Pieces,
    seed: int,
    digests: Digests,
    engine: Engine,
    count: Callable[[int], None],
) -> None:
    """Add the rows of all sources to the digests. `count` is told of them, by threads as they go."""
    how = Shared((list(columns), pieces, seed, replace(local.style, lookup=None)))
    on_spark = engine is Engine.SPARK
    parallelism = run_kernels.parallelism(on_spark=on_spark)
    parts = [
        _DigestPart(replace(copy, rows=tuple(rows)), how)
        for copy, rows_of_source in sources
        for rows in divide(rows_of_source, parallelism)
    ]
    described = spark.described(f"comparison of {local.relation.qualified_name}") if on_spark else nullcontext()
    with described, run_kernels.counting_writes(local.session, lambda rows, _size: count(rows)):
        answers = run_kernels.run_parts_apart(
            local.session, parts, _digest_rows, on_spark=on_spark, check=check_for_interrupts
        )
    for answer in answers:
        if answer.declined:
            raise Declined(answer.declined)
        digests.counts[answer.numbers] += answer.counts
        digests.sums[answer.numbers] += answer.sums
        if on_spark:
            count(int(answer.counts.sum()))
    choice.done(local.session, "comparison", engine)
