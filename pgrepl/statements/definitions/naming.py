"""The words of definitions: qualified names, owners, comments and privileges."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.acl import LETTERS, NAMES, Acl, ObjectKind, default_acl, parse_acl
from pgrepl.catalog.facts.objects import comment_on
from pgrepl.catalog.facts.relation import Relation
from pgrepl.catalog.facts.roles import role_name
from pgrepl.sql.keywords import quote_identifier, quote_literal, quote_qualified
from pgrepl.statements.definitions.definition import Fact, Phase, Stage

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session

# PUBLIC has OID 0 in an access list
PUBLIC = 0


def qualified(found: Relation) -> str:
    return quote_qualified(found.schema, found.name)


def role(session: Session, oid: int) -> str:
    return "PUBLIC" if oid == PUBLIC else quote_identifier(role_name(session, oid))


def owner(session: Session, words: str, oid: int) -> str:
    return f"ALTER {words} OWNER TO {role(session, oid)};"


# --- comments ---------------------------------------------------------------------------------------------------------


def comment(
    session: Session,
    words: str,
    classid: int,
    oid: int,
    column: int = 0,
    *,
    phase: float = Phase.ATTRIBUTES,
    of: str = "",
    stage: Stage = Stage.ATTRIBUTES,
) -> dict[str, Fact]:
    return comment_text(words, comment_on(session, classid, oid, column), phase=phase, of=of, stage=stage)


def comment_text(
    words: str, text: str | None, *, phase: float, of: str = "", stage: Stage = Stage.ATTRIBUTES
) -> dict[str, Fact]:
    if text is None:
        return {}
    made, undone = f"COMMENT ON {words} IS {quote_literal(text)};", f"COMMENT ON {words} IS NULL;"
    return {f"comment on {words}": Fact(phase, (made,), (undone,), of=of, stage=stage)}


# --- privileges -------------------------------------------------------------------------------------------------------


def privileges(
    session: Session,
    words: str,
    kind: ObjectKind,
    owned_by: int,
    stored: Any,
    column: str | None = None,
    *,
    phase: float = Phase.ATTRIBUTES,
) -> dict[str, Fact]:
    """Of a whole object or one of its columns. All privileges are one fact: those that there are go, before others are
    granted."""
    usual = default_acl(kind, owned_by)
    made = () if stored is None else tuple(acl_changes(session, words, owned_by, usual, stored, column))
    if not made:
        return {}
    grantees = {item.grantee for item in usual}
    of_column = "" if column is None else f" ({column})"
    items = parse_acl(stored) or ()
    given = [item.grantee for item in items if item.grantee not in grantees]
    more = {item.grantee for item in items if item.grantee in grantees and item.options}
    undone = [f"REVOKE ALL{of_column} ON {words} FROM {role(session, each)};" for each in dict.fromkeys(given)]
    undone += [
        f"REVOKE GRANT OPTION FOR ALL{of_column} ON {words} FROM {role(session, each)};" for each in sorted(more)
    ]
    undone += [f"GRANT ALL{of_column} ON {words} TO {role(session, each)};" for each in sorted(grantees)]
    of = "" if column is None else f"column {column}"
    fact = Fact(phase, made, tuple(undone), anew=True, undone_in=phase - 0.5, of=of)  # before the owner changes
    return {f"privileges {words} {column or ''}": fact}


def acl_changes(
    session: Session, words: str, owned_by: int, before: Acl, stored: Any, column: str | None = None
) -> Iterator[str]:
    """The REVOKE and GRANT statements that turn an access list into the stored one."""
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
