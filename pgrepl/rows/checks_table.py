"""The rules of one table for its rows: generated columns, NOT NULL, CHECK, the bound of a partition."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.constraint import constraints_of
from pgrepl.catalog.relation import Attribute, Relation
from pgrepl.catalog.transaction import DimensionsNeeded
from pgrepl.errors import PgError
from pgrepl.expr import stored
from pgrepl.expr.context import Context
from pgrepl.expr.defaults import default_of
from pgrepl.expr.evaluate import Compiled, compile
from pgrepl.expr.partition_constraint import partition_constraint
from pgrepl.expr.range_table import TABLEOID
from pgrepl.expr.tree import Const, Expr, Var
from pgrepl.expr.walk import rewrite, var_attnums
from pgrepl.frozen import frozen
from pgrepl.rows.array_columns import nested_columns
from pgrepl.rows.checks_text import failing_row
from pgrepl.rows.routing import converter
from pgrepl.types import oids

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

Row = tuple[Any, ...]


@frozen
class TableRules:
    """The rules of one table as the catalog has them: expressions over its own columns."""

    relation: Relation
    generated: tuple[tuple[int, Expr], ...]  # attnum, expression
    not_null: tuple[Attribute, ...]
    checks: tuple[tuple[str, Expr], ...]  # by name, which is the order PostgreSQL tries them in
    bound: tuple[Expr, ...]  # of a partition: the constraints of its own bound and its ancestors'


def table_rules(session: Session, rel: Relation) -> TableRules:
    generated = []
    for attribute in rel.columns:
        if attribute.generated:
            expr = default_of(session, rel.oid, attribute.num)
            assert expr is not None
            generated.append((attribute.num, own(expr, rel)))
    checks = [
        (row.conname, own(stored.from_json(row.conbin, session), rel)) for row in constraints_of(session, rel.oid, "c")
    ]
    bound = partition_constraint(session, rel.oid) if rel.is_partition else []
    return TableRules(rel, tuple(generated), tuple(a for a in rel.columns if a.notnull), tuple(checks), tuple(bound))


def own(expr: Expr, rel: Relation) -> Expr:
    """The expression over the rows of this table alone: tableoid becomes a constant."""

    def visit(node: Expr) -> Expr | None:
        if isinstance(node, Var) and node.attnum == TABLEOID:
            return Const(oids.OID, value=rel.oid)
        return None

    return rewrite(expr, visit)


class TableChecks:
    """The compiled rules of a table for one statement. Messages show rows in the layout of `named`, the relation that
    the statement names."""

    def __init__(
        self,
        session: Session,
        rel: Relation,
        named: Relation,
        modified: frozenset[int],
        changed: frozenset[int] | None = None,
    ) -> None:
        """`modified` are columns of the named relation, for messages. `changed` are columns of this table, if the
        others are known to be unchanged."""
        self.relation = rel
        self._session = session
        self._named = named
        self._modified = modified
        self._to_named: Callable[[Row], Row] = converter(rel, named)
        context = Context(session)
        rules = table_rules(session, rel)
        self._generated = [
            (number, compile(expr, context))
            for number, expr in rules.generated
            if changed is None or changed & var_attnums(expr)
        ]
        self._nested = nested_columns(session, rel)
        self._not_null = [(a.num - 1, a) for a in rules.not_null]
        self._checks = [(name, compile(expr, context)) for name, expr in rules.checks]
        self._bound: list[Compiled] = []
        if changed is None or any(changed & var_attnums(expr) for expr in rules.bound):
            self._bound = [compile(expr, context) for expr in rules.bound]

    def complete(self, row: Row) -> Row:
        """The row with its generated columns computed."""
        if not self._generated:
            return row
        values = list(row)
        for number, value in self._generated:
            values[number - 1] = value(row)
        return tuple(values)

    def constraints(self, row: Row) -> None:
        """Check NOT NULL and CHECK (ExecConstraints), and that columns of lists and structs hold what they get."""
        for index, holds in self._nested:
            if row[index] is not None and not holds(row[index]):
                raise DimensionsNeeded(self.relation.oid, index + 1)
        for index, attribute in self._not_null:
            if row[index] is None:
                raise self.null_value(attribute, self.shown(row))
        for name, test in self._checks:
            if test(row) is False:
                raise self.check_failed(name, self.shown(row))

    def in_bound(self, row: Row) -> bool:
        """Whether the partition's bound admits the row (ExecPartitionCheck)."""
        return all(test(row) is not False for test in self._bound)

    def bound(self, row: Row) -> None:
        if not self.in_bound(row):
            raise self.out_of_bound(self.shown(row))

    # --- messages -----------------------------------------------------------------------------------------------------

    def shown(self, row: Row) -> str | None:
        """The DETAIL that shows the row."""
        return failing_row(self._session, self._named, self._to_named(row), self._modified)

    def null_value(self, attribute: Attribute, detail: str | None) -> PgError:
        rel = self.relation
        return PgError(
            "23502",
            f'null value in column "{attribute.name}" of relation "{rel.name}" violates not-null constraint',
            detail=detail,
            schema=rel.schema,
            table=rel.name,
            column=attribute.name,
        )

    def check_failed(self, name: str, detail: str | None) -> PgError:
        rel = self.relation
        return PgError(
            "23514",
            f'new row for relation "{rel.name}" violates check constraint "{name}"',
            detail=detail,
            schema=rel.schema,
            table=rel.name,
            constraint=name,
        )

    def out_of_bound(self, detail: str | None) -> PgError:
        rel = self.relation
        return PgError(
            "23514",
            f'new row for relation "{rel.name}" violates partition constraint',
            detail=detail,
            schema=rel.schema,
            table=rel.name,
        )
