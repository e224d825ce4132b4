"""Qualified names in a dump, and the statements for owner, comment and privileges of every kind of object."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pgrepl.catalog.acl import LETTERS, NAMES, Acl, ObjectKind, default_acl, parse_acl
from pgrepl.catalog.comments import comment_on
from pgrepl.catalog.relation import Relation
from pgrepl.catalog.roles import role_name
from pgrepl.catalog.session import Session
from pgrepl.sql.quote import quote_identifier, quote_literal, quote_qualified

# PUBLIC has OID 0 in an access list
PUBLIC = 0


def qualified(found: Relation) -> str:
    return quote_qualified(found.schema, found.name)


def role(session: Session, oid: int) -> str:
    return "PUBLIC" if oid == PUBLIC else quote_identifier(role_name(session, oid))


def owner(session: Session, words: str, oid: int) -> str:
    return f"ALTER {words} OWNER TO {role(session, oid)};"


def comment(session: Session, words: str, classid: int, oid: int, column: int = 0) -> Iterator[str]:
    text = comment_on(session, classid, oid, column)
    if text is not None:
        yield f"COMMENT ON {words} IS {quote_literal(text)};"


def privileges(
    session: Session, words: str, kind: ObjectKind, owned_by: int, stored: Any, column: str | None = None
) -> Iterator[str]:
    """The REVOKE and GRANT statements that turn the default access list into the stored one, of a whole object or one
    of its columns."""
    if stored is not None:
        yield from acl_changes(session, words, owned_by, default_acl(kind, owned_by), stored, column)


def acl_changes(
    session: Session, words: str, owned_by: int, before: Acl, stored: Any, column: str | None = None
) -> Iterator[str]:
    """The same from any list to the stored one."""
    usual = {(item.grantee, item.grantor): item for item in before}
    items = parse_acl(stored) or ()
    kept = {(item.grantee, item.grantor) for item in items if usual.get((item.grantee, item.grantor)) == item}
    for grantee, grantor in usual:
        if (grantee, grantor) not in kept:
            yield f"REVOKE ALL ON {words} FROM {role(session, grantee)};"
    for item in items:
        if (item.grantee, item.grantor) in kept:
            continue
        plain = item.privileges & ~item.options
        for mask, option in ((plain, ""), (item.options, " WITH GRANT OPTION")):
            if mask:
                of_column = "" if column is None else f"({column})"
                granted = ",".join(NAMES[i] + of_column for i in range(len(LETTERS)) if mask & 1 << i)
                by = "" if item.grantor == owned_by else f" GRANTED BY {role(session, item.grantor)}"
                yield f"GRANT {granted} ON {words} TO {role(session, item.grantee)}{option}{by};"
