"""DROP TABLE, VIEW, INDEX and SEQUENCE."""

from __future__ import annotations

from dataclasses import dataclass

from pgrepl.catalog.acl import check_relation_owner, is_owner
from pgrepl.catalog.classes import PG_CLASS, ObjectAddress
from pgrepl.catalog.namespace import explicit_schema, schema_row
from pgrepl.catalog.relation import Relation, find_relation, range_var
from pgrepl.catalog.session import Session
from pgrepl.catalog.transaction import require_no_block
from pgrepl.errors import PgError
from pgrepl.query.result import Result
from pgrepl.sql.nodes import DropStmt, ObjectType, RangeVar
from pgrepl.sql.tags import command_tag
from pgrepl.statements.deletion import drop_objects
from pgrepl.statements.table.permissions import refuse_catalog


@dataclass(frozen=True, slots=True)
class _Words:
    """The words of messages for a kind of relation."""

    kind: str
    noun: str
    article: str
    sqlstate: str = "42P01"

    @property
    def hint(self) -> str:
        return f"Use DROP {self.noun.upper()} to remove {self.article} {self.noun}."


_TABLE = _Words("r", "table", "a")
_INDEX = _Words("i", "index", "an", "42704")
_WORDS = {
    "r": _TABLE,
    "p": _TABLE,
    "S": _Words("S", "sequence", "a"),
    "v": _Words("v", "view", "a"),
    "m": _Words("m", "materialized view", "a"),
    "i": _INDEX,
    "I": _INDEX,
    "c": _Words("c", "type", "a", "42704"),
    "f": _Words("f", "foreign table", "a", "42704"),
}
_WANTED = {
    ObjectType.TABLE: _WORDS["r"],
    ObjectType.SEQUENCE: _WORDS["S"],
    ObjectType.VIEW: _WORDS["v"],
    ObjectType.MATVIEW: _WORDS["m"],
    ObjectType.INDEX: _WORDS["i"],
    ObjectType.FOREIGN_TABLE: _WORDS["f"],
}


def drop_relations(stmt: DropStmt, session: Session) -> Result:
    """As RemoveRelations does: all are found before any is dropped."""
    wanted = _WANTED[stmt.kind]
    if stmt.concurrently:
        require_no_block(session, "DROP INDEX CONCURRENTLY")
        if len(stmt.names) != 1:
            raise PgError("0A000", "DROP INDEX CONCURRENTLY does not support dropping multiple objects")
        if stmt.cascade:
            raise PgError("0A000", "DROP INDEX CONCURRENTLY does not support CASCADE")
    addresses: list[ObjectAddress] = []
    for parts in stmt.names:
        name = range_var(parts)
        rel = find_relation(session, name, missing_ok=True)
        if rel is None:
            _missing(session, name, wanted, missing_ok=stmt.missing_ok)
            continue
        _check(session, rel, name.name, wanted)
        if stmt.concurrently and rel.kind == "I":
            raise PgError("0A000", f'cannot drop partitioned index "{name.name}" concurrently')
        addresses.append(ObjectAddress(PG_CLASS, rel.oid))
    if addresses:
        drop_objects(session, addresses, cascade=stmt.cascade)
    return Result(command_tag(stmt))


def _missing(session: Session, name: RangeVar, wanted: _Words, *, missing_ok: bool) -> None:
    """As DropErrorMsgNonExistent does."""
    if name.schema is not None and not explicit_schema(session, name.schema, missing_ok=True):
        text, sqlstate = f'schema "{name.schema}" does not exist', "3F000"
    else:
        text, sqlstate = f'{wanted.noun} "{name.name}" does not exist', wanted.sqlstate
    if not missing_ok:
        raise PgError(sqlstate, text)
    session.notice("NOTICE", f"{text}, skipping")


def _check(session: Session, rel: Relation, name: str, wanted: _Words) -> None:
    """As RangeVarCallbackForDropRelation does: the owner of the table or of its schema may drop it."""
    actual = _WORDS.get(rel.kind)
    if actual is not wanted:
        raise PgError(
            "42809",
            f'"{name}" is not {wanted.article} {wanted.noun}',
            hint=actual.hint if actual is not None else None,
        )
    row = schema_row(session, rel.namespace)
    if row is None or not is_owner(session, row.nspowner):
        check_relation_owner(session, rel)
    refuse_catalog(rel, name)
