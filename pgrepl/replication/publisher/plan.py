"""The plan for one table as of one snapshot: which of its changes are sent, under which name and filter; replica
identity; and the message that a change becomes (pgoutput_change, pgoutput_truncate).

The rules are those of get_rel_sync_entry, pgoutput_row_filter_init, pgoutput_column_list_init and
ExtractReplicaIdentity:

* the operations of all publications that publish the table are united;
* filters and column lists come from the publications that publish it at the topmost ancestor only; the filters of one
  operation are ORed, and void when one of these publications has none for it;
* column lists must be the same in all of them.

A change is sent if its operation is published. Row filters may turn an UPDATE into an INSERT or a DELETE, or filter
any change out: _RULES say which, for single rows (TableMessages.message) and for whole columns (sent_of) alike. An
UPDATE that moves a row to another partition is a DELETE and an INSERT before, as in PostgreSQL; one that moves it
between ranges of a key by which a subscriber copies becomes one of them there (subscriber/copying/ranges.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.publication import (
    is_named,
    is_publishable,
    member_schema,
    publication_or_none,
    publishes_as_one_of_all,
    topmost_ancestor,
    whole_columns,
)
from pgrepl.catalog.facts.relation import Attribute, Relation, relation, relation_or_none
from pgrepl.catalog.facts.relation_parts import identity_key_columns, partition_ancestors
from pgrepl.catalog.session.settings import USUAL_RELEASE
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.store import one
from pgrepl.expr.arrow.program import any_is_true, program_of
from pgrepl.expr.evaluate import evaluate
from pgrepl.expr.functions.registry import Context
from pgrepl.expr.row_filter_checks import check_replica_identity
from pgrepl.expr.stored import from_json
from pgrepl.expr.tree import Expr
from pgrepl.expr.walk import map_attnums
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.ground.lazy import np, pa, pc
from pgrepl.replication.wire.batch import CODES
from pgrepl.replication.wire.messages import (
    DELETE,
    INSERT,
    TRUNCATE,
    UPDATE,
    Message,
    Row,
    SentColumn,
    SentRelation,
    TruncateMessage,
)
from pgrepl.rows.checks_table import column_places, converter
from pgrepl.types.lake.arrays import plain_array

if TYPE_CHECKING:
    import numpy.typing as npt

    from pgrepl.catalog.session.session import Session
    from pgrepl.expr.arrow.program import Program
    from pgrepl.types.lake.arrays import Form

    Flags = npt.NDArray[Any]
    Numbers = npt.NDArray[Any]

Test = Callable[[tuple[Any, ...]], bool]
# The operation that is sent for a change whose operation is published (pgoutput_row_filter). A row without a filter
# passes; None: either. A case that is not listed is not sent.
_RULES: tuple[tuple[str, bool | None, bool | None, bool | None, str], ...] = (
    # operation, is the old row known, does it pass, does the new row pass: the operation sent
    (INSERT, None, None, True, INSERT),
    (DELETE, True, True, None, DELETE),
    (UPDATE, False, None, True, UPDATE),
    (UPDATE, True, True, True, UPDATE),
    (UPDATE, True, False, True, INSERT),
    (UPDATE, True, True, False, DELETE),
)


@frozen
class ReplicaIdentity:
    """`whole`: REPLICA IDENTITY FULL. `columns`: the numbers of the identity index's columns."""

    whole: bool
    columns: frozenset[int]

    @classmethod
    def of(cls, session: Session, table: Relation) -> ReplicaIdentity:
        return cls(table.replident == "f", identity_key_columns(session, table))

    def covers(self, number: int) -> bool:
        """Whether the old value of a column is logged."""
        return self.whole or number in self.columns

    def image(self, old: Row, new: Row | None) -> Row | None:
        """The old row as it is logged, with NULL in columns that are not covered; None: no old row is logged. `new`:
        the new row of an UPDATE."""
        if self.whole:
            return old
        if not self.columns or (new is not None and not self._is_changed(old, new)):
            return None
        return tuple([value if number in self.columns else None for number, value in enumerate(old, 1)])

    def _is_changed(self, old: Row, new: Row) -> bool:
        return any(old[number - 1] != new[number - 1] for number in self.columns)

    def have_image(self, deleted: Flags, updated: Flags, has_changed: Callable[[Flags], Flags]) -> Flags:
        """A mask of the changes for which an old row is logged. `has_changed` says whether the key of an updated row
        has changed."""
        if self.whole:
            return deleted | updated
        if not self.columns:
            return deleted & False
        return deleted | has_changed(updated) if updated.any() else deleted


def differing(olds: Iterable[pa.Array], news: Iterable[pa.Array], count: int) -> Flags:
    """A mask of the keys that differ, by the columns of `count` old and new ones."""
    differs_at = np.zeros(count, np.bool_)
    for old, new in zip(olds, news, strict=True):
        if old.equals(new):
            continue
        differs = pc.fill_null(pc.not_equal(old, new), True).to_numpy(zero_copy_only=False)
        if old.null_count and new.null_count:
            nothing = pc.and_(pc.is_null(old), pc.is_null(new)).to_numpy(zero_copy_only=False)
            differs = differs & ~nothing
        differs_at |= differs
    return differs_at


# --- plan -------------------------------------------------------------------------------------------------------------


@frozen
class SendPlan:
    """The operations, rows and columns that are sent of one table's changes."""

    table: Relation  # whose rows changed
    sent_as: Relation  # itself, or the ancestor it is published as
    operations: frozenset[str]
    filters: dict[str, tuple[Expr, ...]]  # by operation, over sent_as; an operation without an entry is not filtered
    columns: tuple[Attribute, ...]  # those sent, of sent_as
    from_attnums: tuple[int, ...]  # for each column of sent_as by number, the table's; 0: dropped there
    identity: ReplicaIdentity
    sent_identity: ReplicaIdentity  # that sent_as has


def send_plan(past: Session, names: Sequence[str], relid: int, release: int = USUAL_RELEASE) -> SendPlan | None:
    """The plan by the catalog that `past` sees; None: nothing of the table is sent. `release`: that the publisher
    speaks."""
    table = relation_or_none(past, relid)
    if table is None or not is_publishable(table):
        return None
    operations: set[str] = set()
    deciding: list[tables.pg_publication] = []  # the publications at the topmost ancestor
    published_as, level = relid, 0
    ancestors = partition_ancestors(past, relid) if table.is_partition else []
    for name in names:
        publication = _publication_at_change(past, name, release)
        if publication is None:
            continue
        pub_as, pub_level, publishes = _published_as(past, publication, table, ancestors)
        if not publishes or (table.kind == "p" and not publication.pubviaroot):
            continue
        operations |= published_operations(publication)
        if pub_level < level:
            continue
        if pub_level > level:
            published_as, level = pub_as, pub_level
            deciding = []
        deciding.append(publication)
    if not operations:
        return None
    sent_as = relation(past, published_as)
    filters, columns = _filters(past, deciding, sent_as), published_columns(past, deciding, sent_as)
    places = column_places(table, sent_as)
    identity = ReplicaIdentity.of(past, table)
    return SendPlan(
        table,
        sent_as,
        frozenset(operations),
        filters,
        columns,
        tuple([place + 1 for place in places]),
        identity,
        identity if published_as == relid else ReplicaIdentity.of(past, sent_as),
    )


def check_sendable(past: Session, plan: SendPlan, operation: str) -> None:
    """Raise if PostgreSQL would refuse the UPDATE or DELETE here. The DELETE of a row that moves to another partition
    counts as an UPDATE."""
    if operation == UPDATE or not plan.table.is_partition:
        check_replica_identity(past, plan.table, operation.upper())


def _publication_at_change(past: Session, name: str, release: int) -> tables.pg_publication | None:
    """The publication as of the change; one that was not there is an error up to 17, and is passed over since 18
    (LoadPublications)."""
    row = publication_or_none(past, name)
    if row is None and release < 18:
        raise PgError("42704", f'publication "{name}" does not exist')
    if row is None:
        past.notice(
            "WARNING",
            f'skipped loading publication "{name}"',
            sqlstate="55000",
            detail="The publication does not exist at this point in the WAL.",
            hint="Create the publication if it does not exist.",
        )
    return row


def published_operations(publication: tables.pg_publication) -> set[str]:
    flags = (
        (INSERT, publication.pubinsert),
        (UPDATE, publication.pubupdate),
        (DELETE, publication.pubdelete),
        (TRUNCATE, publication.pubtruncate),
    )
    return {operation for operation, published in flags if published}


def _published_as(
    past: Session, publication: tables.pg_publication, table: Relation, ancestors: Sequence[int]
) -> tuple[int, int, bool]:
    """The table that the publication publishes the table as, its level, and whether it publishes it at all."""
    if publication.puballtables:
        published = publishes_as_one_of_all(past, publication, table)
        if publication.pubviaroot and ancestors:
            return ancestors[-1], len(ancestors), published
        return table.oid, 0, published
    published_as, level, by_ancestor = table.oid, 0, False
    ancestor = topmost_ancestor(past, publication.oid, ancestors) if ancestors else None
    if ancestor is not None:
        by_ancestor = True
        if publication.pubviaroot:
            published_as, level = ancestor, ancestors.index(ancestor) + 1
    return published_as, level, by_ancestor or is_named(past, publication.oid, table)


def _filters(
    past: Session, deciding: Sequence[tables.pg_publication], sent_as: Relation
) -> dict[str, tuple[Expr, ...]]:
    """The row filters by operation (pgoutput_row_filter_init)."""
    unfiltered: set[str] = set()
    filters: dict[str, list[Expr]] = {}
    for publication in deciding:
        operations = published_operations(publication) - {TRUNCATE}
        stored = _member_value(past, publication, sent_as, "prqual")
        if stored is None:
            unfiltered |= operations
            continue
        for operation in operations:
            filters.setdefault(operation, []).append(from_json(stored, past))
    return {operation: tuple(exprs) for operation, exprs in filters.items() if operation not in unfiltered}


def published_columns(
    past: Session, publications: Sequence[tables.pg_publication], sent_as: Relation
) -> tuple[Attribute, ...]:
    """The columns that all of the publications publish (pgoutput_column_list_init)."""
    lists = [_member_value(past, publication, sent_as, "prattrs") for publication in publications]
    whole = _whole(publications, lists, sent_as)
    chosen = whole
    for number, listed in enumerate(lists):
        columns = whole if listed is None else frozenset(listed)
        if number and columns != chosen:
            raise PgError(
                "0A000",
                f'cannot use different column lists for table "{sent_as.qualified_name}" in different publications',
            )
        chosen = columns
    return tuple([c for c in sent_as.columns if c.num in chosen])


def _whole(
    publications: Sequence[tables.pg_publication], lists: Sequence[list[int] | None], sent_as: Relation
) -> frozenset[int]:
    """The columns that publications without a column list publish (check_and_init_gencol)."""
    generated = {row.pubgencols for row, listed in zip(publications, lists, strict=True) if listed is None}
    if len(generated) > 1 and any(column.generated for column in sent_as.columns):
        raise PgError(
            "0A000",
            f'cannot use different values of publish_generated_columns for table "{sent_as.qualified_name}"'
            " in different publications",
        )
    return frozenset(column.num for column in whole_columns(sent_as, min(generated, default="n")))


def _member_value(past: Session, publication: tables.pg_publication, table: Relation, column: str) -> Any:
    """The publication's row filter or column list for the table; FOR TABLES IN SCHEMA and FOR ALL TABLES have none."""
    if publication.puballtables or member_schema(past, publication.oid, table.namespace) is not None:
        return None
    member = one(past, tables.pg_publication_rel, prpubid=publication.oid, prrelid=table.oid)
    return None if member is None else getattr(member, column)


def any_true(exprs: Sequence[Expr], context: Context) -> Test:
    """Whether a row passes; without a filter every row does."""
    tests = [evaluate.compile(expr, context) for expr in exprs]
    if not tests:
        return lambda row: True
    if len(tests) == 1:
        only = tests[0]
        return lambda row: only(row) is True
    return lambda row: any(test(row) is True for test in tests)


def by_columns(session: Session, plan: SendPlan) -> dict[str, Program]:
    """The row filters that ask no session, by operation. What Arrow does not evaluate as PostgreSQL does, the evaluator
    evaluates row by row."""
    programs = {}
    own = {n: attnum for n, attnum in enumerate(plan.from_attnums, 1) if attnum}
    for operation, exprs in plan.filters.items():
        program = program_of(map_attnums(any_is_true(exprs), own), Context(session))
        if program is not None:
            programs[operation] = program
    return programs


def are_columnar(programs: Iterable[Program]) -> bool:
    """Whether Arrow evaluates all of the conditions."""
    return all(program.is_columnar for program in programs)


# --- row filter -------------------------------------------------------------------------------------------------------


def _all_cases() -> Iterator[tuple[tuple[str, bool, bool, bool], str]]:
    for operation, *asked, sent in _RULES:
        for known, before, after in product(*[(False, True) if passes is None else (passes,) for passes in asked]):
            yield (operation, known, before, after), sent


SENT: Mapping[tuple[str, bool, bool, bool], str] = dict(_all_cases())


def sent_of(codes: Numbers, known: Numbers, before: Numbers | bool, after: Numbers | bool) -> Numbers:
    """SENT for many changes: from the codes of operations (wire/batch.py) to the codes of those sent; 0: nothing."""
    table = np.zeros((256, 2, 2, 2), np.uint8)
    for (operation, known_old, old_passes, new_passes), sent in SENT.items():
        table[CODES[operation], int(known_old), int(old_passes), int(new_passes)] = CODES[sent]
    place = codes.astype(np.uint16) * np.uint16(8)
    for bit, flags in ((4, known), (2, before), (1, after)):
        place += np.uint16(bit) * flags
    codes_sent: Numbers = table.reshape(-1)[place]
    return codes_sent


def passing(
    plan: SendPlan,
    tests: Mapping[str, Program],
    codes: Numbers,
    rows: Numbers,
    form_of: Callable[[int], Form],
    pick: Callable[[int, Numbers], pa.Array],
    *,
    new: bool,
) -> Numbers:
    """A mask of the changes whose new, or old, rows pass the row filters of their operations; those that are not among
    `rows` pass. `tests`: the filters, by columns. `form_of`: of a column of the plan's table;
    `pick`: its values in some changes. Of an old row only the replica identity is known."""
    passes: Numbers = np.ones(len(codes), np.bool_)
    for operation in (INSERT, UPDATE) if new else (UPDATE, DELETE):
        test = tests.get(operation)
        at = np.flatnonzero(rows & (codes == CODES[operation]))
        if test is None or not len(at):
            continue
        forms = {attnum: form_of(attnum) for attnum in sorted(test.attnums)}
        arrays = {
            attnum: pick(attnum, at)
            if new or plan.identity.covers(attnum)
            else plain_array(form.to_array([None] * len(at)))
            for attnum, form in forms.items()
        }
        passes[at] = test.test(forms)(arrays, len(at)).to_numpy(zero_copy_only=False)
    return passes


class TableMessages:
    """The messages of one table's changes under one plan."""

    def __init__(self, plan: SendPlan) -> None:
        self.plan = plan
        self.relation = describe(plan)
        self._numbers = [plan.from_attnums[column.num - 1] for column in plan.columns]
        context = Context()
        self._filters = {operation: any_true(exprs, context) for operation, exprs in plan.filters.items()}
        self._as_sent_table = converter(plan.table, plan.sent_as)

    def message(self, old: Row | None, new: Row | None) -> Message | None:
        """The message for an inserted (`old` None), deleted (`new` None) or updated row; None: nothing is sent. An
        UPDATE has the old row if that is known, an INSERT none, a DELETE the old row alone."""
        operation = INSERT if old is None else DELETE if new is None else UPDATE
        if operation not in self.plan.operations:
            return None
        identity = self.plan.identity
        known = None if old is None else identity.image(old, new)
        before, after = self._passes(operation, known), self._passes(operation, new)
        sent = SENT.get((operation, known is not None, before, after))
        if sent is None:
            return None
        old_sent = None if known is None or sent == INSERT else self._sent(known)
        new_sent = None if new is None or sent == DELETE else self._sent(new)
        return Message(sent, self.relation, old_sent, new_sent, whole_old=identity.whole and sent != INSERT)

    def _passes(self, operation: str, row: Row | None) -> bool:
        test = self._filters.get(operation)
        return row is not None and (test is None or test(self._as_sent_table(row)))

    def _sent(self, row: Row) -> Row:
        return tuple([row[number - 1] if number else None for number in self._numbers])


def describe(plan: SendPlan) -> SentRelation:
    """The RELATION message: the table's columns under the name it is sent as (logicalrep_write_rel)."""
    sent_as, columns = plan.sent_as, []
    for column in plan.columns:
        is_key = plan.sent_identity.covers(column.num)
        columns.append(SentColumn(column.name, column.type, column.typmod, is_key, attnum=column.num))
    return SentRelation(sent_as.oid, sent_as.schema, sent_as.name, sent_as.replident, tuple(columns))


def truncated(plans: Iterable[SendPlan | None], *, cascade: bool, restart_identity: bool) -> TruncateMessage | None:
    """The TRUNCATE message with the tables that are sent, or None (pgoutput_truncate)."""
    sent = tuple(_truncated_relations(plans))
    return TruncateMessage(sent, cascade, restart_identity) if sent else None


def _truncated_relations(plans: Iterable[SendPlan | None]) -> Iterator[SentRelation]:
    for plan in plans:
        if plan is None or TRUNCATE not in plan.operations:
            continue
        if plan.table.is_partition and plan.sent_as.oid != plan.table.oid:
            continue  # the root is sent, or nothing
        yield describe(plan)
