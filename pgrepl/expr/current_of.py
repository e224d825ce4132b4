"""WHERE CURRENT OF: the row on which a cursor stands, by its table and ctid, which a row keeps when it is updated
(execCurrentOf)."""

from __future__ import annotations

from pgrepl.catalog.inheritance import inheritors
from pgrepl.catalog.relation import relation
from pgrepl.errors import PgError, unsupported
from pgrepl.expr.scope import Scope
from pgrepl.expr.tree import BoolExpr, Const, Expr, OpExpr, Var
from pgrepl.sql.nodes import BoolOp
from pgrepl.types import oids

_OID_EQ, _TID_EQ = 607, 387


def current_of(cursor: str, scope: Scope) -> Expr:
    session = scope.session
    target = relation(session, scope.rtable[0].relid)
    if target.kind == "v":
        raise unsupported("WHERE CURRENT OF on a view")
    cursor = _named(scope, cursor)
    portal = session.transaction.portals.get(cursor)
    if portal is None:
        raise PgError("34000", f'cursor "{cursor}" does not exist')
    standing = portal.declared.standing
    if standing is None:
        raise PgError("24000", f'cursor "{cursor}" is not a SELECT query')
    if portal.is_held:
        raise PgError("24000", f'cursor "{cursor}" is held from a previous transaction')
    scanned = standing.relids
    below = set(inheritors(session, target.oid))
    found = [
        number for number, relid in enumerate(scanned) if relid in below or target.oid in inheritors(session, relid)
    ]
    if not found:
        if standing.is_marked:
            what = f'does not have a FOR UPDATE/SHARE reference to table "{target.name}"'
        else:
            what = f'is not a simply updatable scan of table "{target.name}"'
        raise PgError("24000", f'cursor "{cursor}" {what}')
    if portal.current is None:
        raise PgError("24000", f'cursor "{cursor}" is not positioned on a row')
    place = standing.places[portal.position - 1]
    table, ctid = place[found[0] * 2 : found[0] * 2 + 2]
    return BoolExpr(
        oids.BOOL, op=BoolOp.AND, args=(_equal(_OID_EQ, oids.OID, -6, table), _equal(_TID_EQ, oids.TID, -1, ctid))
    )


def _named(scope: Scope, cursor: str) -> str:
    """The name of the cursor: the value of a refcursor variable of that name, if a routine has one
    (transformCurrentOfExpr, fetch_cursor_param_value)."""
    variables = scope.variables
    found = None if variables is None else variables.named((cursor,), -1, must_have_field=False)
    if not isinstance(found, Const) or found.type != oids.REFCURSOR:
        return cursor
    if found.value is None and variables is not None:
        raise PgError("42704", f"no value found for parameter {variables.number_at(-1)}")
    return str(found.value)


def _equal(op: int, typoid: int, attnum: int, value: object) -> OpExpr:
    return OpExpr(oids.BOOL, op=op, args=(Var(typoid, varno=1, attnum=attnum), Const(typoid, value=value)))
