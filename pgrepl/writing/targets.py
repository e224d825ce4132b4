"""The relations that can be changed, and whether their replica identity allows it (CheckValidResultRel)."""

from __future__ import annotations

from pgrepl.catalog.relation import Relation, relation
from pgrepl.catalog.session import Session
from pgrepl.errors import PgError, unsupported
from pgrepl.expr.dml.plan import TARGET, Command, MergeMatch, Modify
from pgrepl.expr.rowfilter import check_replica_identity
from pgrepl.expr.tree import Query
from pgrepl.rows.members import Member, members

_UNCHANGEABLE = {"S": "sequence", "t": "TOAST relation", "m": "materialized view"}


def check_targets(session: Session, modify: Modify) -> None:
    target = relation(session, modify.relid)
    if target.kind == "v":
        return  # it has INSTEAD OF triggers
    check_kind(target)
    if modify.conflict is not None and modify.conflict.assigned is not None:
        check_replica_identity(session, target, "UPDATE")
    finding = [command for command in modify.commands if command is not Command.INSERT]
    for member in changed_tables(session, modify) if finding else ():
        for command in finding:
            check_replica_identity(session, member.relation, command.value)


def check_kind(target: Relation) -> None:
    if target.is_catalog:
        raise PgError("42501", f'permission denied: "{target.name}" is a system catalog')
    if target.kind in ("r", "p"):
        return
    what = _UNCHANGEABLE.get(target.kind)
    if what is not None:
        raise PgError("42809", f'cannot change {what} "{target.name}"')
    if target.kind == "f":
        raise unsupported("a foreign table")
    raise PgError("42809", f'cannot change relation "{target.name}"')


def changed_tables(session: Session, modify: Modify) -> list[Member]:
    """The tables with rows that an UPDATE, DELETE or MERGE may find. If no table of a tree can have any, the table that
    the statement names."""
    found = members(session, modify.relid, modify.rtable[0].inh)
    target = relation(session, modify.relid)
    if target.kind != "p" and len(found) < 2:
        return found
    from pgrepl.expr.context import Context
    from pgrepl.query.bounds import conjuncts, is_never_true
    from pgrepl.writing.pruning import contradicts, leaves, restrictions_of

    where = modify.where
    if modify.merge is not None and MergeMatch.NOT_MATCHED_BY_SOURCE not in modify.merge.matches:
        where = modify.merge.joined_where(where)
    context, conditions = Context(session), conjuncts(where)
    what = restrictions_of(Query((), modify.rtable, modify.from_, where), conditions, TARGET, context)
    if contradicts(what) or any(is_never_true(condition, context) for condition in conditions):
        return [member for member in found if member.relation.oid == target.oid]
    if target.kind != "p":
        return found
    kept = {leaf.oid for leaf in leaves(session, target, what)}
    return [member for member in found if member.relation.oid in kept]
