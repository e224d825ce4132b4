"""The message that a change becomes (pgoutput_change, pgoutput_truncate), and row filters as one test.

A change is sent if its operation is published. Row filters may turn an UPDATE into an INSERT or a DELETE, or filter
any change out; SENT says which, for single rows and for whole columns alike. A subscriber that copies a table by ranges
of its key turns an UPDATE that moves a row between ranges into one of them, too (subscriber/copying/ranges.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

from pgrepl.expr.arrow.program import any_is_true, program_of
from pgrepl.expr.evaluate import evaluate
from pgrepl.expr.functions.registry import Context
from pgrepl.expr.tree import Expr
from pgrepl.expr.walk import map_attnums
from pgrepl.ground.lazy import np, pa
from pgrepl.replication.publisher.plan import SendPlan
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
from pgrepl.rows.checks_table import converter
from pgrepl.types.lake.arrays import plain_array

if TYPE_CHECKING:
    import numpy.typing as npt

    from pgrepl.catalog.session.session import Session
    from pgrepl.expr.arrow.program import Program
    from pgrepl.types.lake.arrays import Form

    Numbers = npt.NDArray[Any]

Test = Callable[[tuple[Any, ...]], bool]


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
    found = {}
    own = {n: attnum for n, attnum in enumerate(plan.from_attnums, 1) if attnum}
    for operation, exprs in plan.filters.items():
        program = program_of(map_attnums(any_is_true(exprs), own), Context(session))
        if program is not None:
            found[operation] = program
    return found


def are_columnar(programs: Iterable[Program]) -> bool:
    """Whether Arrow evaluates all of the conditions."""
    return all(program.is_columnar for program in programs)


# --- row filter -------------------------------------------------------------------------------------------------------


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
# An UPDATE is sent with the old row if that is known; an INSERT without, a DELETE with the old row alone.


def _all_cases() -> Iterator[tuple[tuple[str, bool, bool, bool], str]]:
    for operation, *asked, sent in _RULES:
        for known, before, after in product(*[(False, True) if each is None else (each,) for each in asked]):
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
    found: Numbers = table.reshape(-1)[place]
    return found


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
    found: Numbers = np.ones(len(codes), np.bool_)
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
        found[at] = test.test(forms)(arrays, len(at)).to_numpy(zero_copy_only=False)
    return found


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
        """The message for an inserted (`old` None), deleted (`new` None) or updated row; None: nothing is sent."""
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
