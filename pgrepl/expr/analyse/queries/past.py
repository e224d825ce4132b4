"""`t_at(moment)` in FROM: the table t as of a time or an LSN, if there is no function of this name.

Where the table's past is kept (catalog/facts/history.py) it is a subquery over its versions, and an LSN is one of the
publisher's. Otherwise the lake's snapshots are read, as far back as they are kept, and an LSN is one of the lake's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts import history
from pgrepl.catalog.facts.acl import check_table_privilege
from pgrepl.catalog.facts.namespace import routines_named
from pgrepl.catalog.facts.relation import Relation, find_relation
from pgrepl.catalog.facts.relation_parts import is_active
from pgrepl.expr.analyse.coerce import coerce_to_specific
from pgrepl.expr.analyse.kinds import ExprKind
from pgrepl.expr.analyse.lookup import relation_rte
from pgrepl.expr.analyse.scope import NsItem, Scope
from pgrepl.expr.analyse.transform import transform
from pgrepl.expr.evaluate.evaluate import compile
from pgrepl.expr.functions.registry import Context
from pgrepl.expr.tree import Expr, RteKind
from pgrepl.ground.errors import unsupported
from pgrepl.sql import nodes
from pgrepl.sql.keywords import quote_identifier
from pgrepl.sql.nodes import (
    AConst,
    Alias,
    FuncCall,
    RangeFunction,
    RangeSubselect,
    RangeVar,
    ResTarget,
    SelectStmt,
    TypeCast,
    TypeName,
)
from pgrepl.sql.parser import parse
from pgrepl.types import oids

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session

_SUFFIX = "_at"
_LSN = re.compile(r"\s*[0-9A-Fa-f]{1,8}/[0-9A-Fa-f]{1,8}\s*")
_TIMES = (oids.TIMESTAMPTZ, oids.TIMESTAMP, oids.DATE)


def past_of(scope: Scope, item: RangeFunction) -> RangeSubselect | NsItem | None:
    """What a call of t_at stands for; None: it is none."""
    (call, _), *others = item.functions
    if others or item.ordinality or item.coldefs or not isinstance(call, FuncCall) or len(call.args) != 1:
        return None
    *schema, name = call.name
    if len(schema) > 1 or not name.endswith(_SUFFIX) or routines_named(scope.session, name):
        return None
    wanted = RangeVar(name.removesuffix(_SUFFIX), schema[0] if schema else None)
    table = find_relation(scope.session, wanted, missing_ok=True)
    if table is None or table.kind not in ("r", "p") or table.is_system:
        return None
    scope.lateral_active = True  # as of all functions in FROM
    moment = transform(scope, call.args[0], ExprKind.FROM_FUNCTION)
    scope.lateral_active = False
    is_lsn = moment.type == oids.PG_LSN or (moment.type == oids.UNKNOWN and _looks_like_lsn(call.args[0]))
    if not is_lsn and moment.type not in (*_TIMES, oids.UNKNOWN):
        return None
    alias = item.alias or Alias(name)
    log = history.log_of(scope.session, table)
    if log is not None:
        return RangeSubselect(_versions(scope.session, table, log, call.args[0], is_lsn), alias, True)
    check_table_privilege(scope.session, table, "SELECT")
    if is_active(scope.session, table):
        raise unsupported("the past of a table with row-level security", location=call.location)
    typoid = oids.PG_LSN if is_lsn else oids.TIMESTAMPTZ
    rte = relation_rte(table, alias.name, alias.columns)
    rows = PastRows(scope.session, table, coerce_to_specific(scope, moment, typoid, name), is_lsn)
    return scope.add_rte(replace(rte, kind=RteKind.VALUES, relid=0, rows=rows))


def _looks_like_lsn(raw: Any) -> bool:
    return isinstance(raw, AConst) and isinstance(raw.value, str) and _LSN.fullmatch(raw.value) is not None


def _versions(session: Session, table: Relation, log: Relation, moment: nodes.Expr, is_lsn: bool) -> SelectStmt:
    """The versions that were valid then. What the moment names is not looked for among their columns."""
    begin, end = ("valid_from_lsn", "valid_to_lsn") if is_lsn else ("valid_from", "valid_to")
    columns = ", ".join(f"v.{quote_identifier(column.name)}" for column in table.columns)
    kind = "pg_lsn" if is_lsn else "timestamptz"
    text = (
        f"SELECT {columns} FROM ({history.versions_sql(session, table, log)}) AS v"
        f" WHERE v.{begin} <= m.at AND (v.{end} > m.at OR v.{end} IS NULL)"
    )
    (raw,) = parse(text)
    assert isinstance(raw.stmt, SelectStmt)
    at = ResTarget(TypeCast(moment, TypeName(("pg_catalog", kind))), "at")
    return replace(raw.stmt, from_=(RangeSubselect(SelectStmt((at,)), Alias("m")), *raw.stmt.from_))


class PastRows(Sequence[tuple[Any, ...]]):
    """The rows of a table as of a moment, which are read when they are wanted."""

    unstored = "a view of the past of a table without history"

    def __init__(self, session: Session, table: Relation, moment: Expr, is_lsn: bool) -> None:
        self._session = session
        self._table = table
        self._moment = moment
        self._is_lsn = is_lsn

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        moment = compile(self._moment, Context(self._session))(())
        return iter(self._session.hooks.rows_at(self._session, self._table, moment, self._is_lsn))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __getitem__(self, place: Any) -> Any:
        return list(self)[place]
