"""The facts that objects of all kinds have: a comment, and privileges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pgrepl.catalog.acl import ObjectKind, default_acl, parse_acl
from pgrepl.sql.quote import quote_literal
from pgrepl.statements.comparison.definition import Fact, Phase
from pgrepl.statements.dump import naming

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


def comment_fact(words: str, text: str | None, phase: float = Phase.ATTRIBUTES) -> dict[str, Fact]:
    if text is None:
        return {}
    made, undone = f"COMMENT ON {words} IS {quote_literal(text)};", f"COMMENT ON {words} IS NULL;"
    return {f"comment on {words}": Fact(phase, (made,), (undone,))}


def privilege_facts(
    session: Session,
    words: str,
    kind: ObjectKind,
    owner: int,
    stored: Any,
    column: str | None = None,
    *,
    phase: float = Phase.ATTRIBUTES,
) -> dict[str, Fact]:
    """All privileges are one fact: those that there are go, before others are granted."""
    made = tuple(naming.privileges(session, words, kind, owner, stored, column))
    if not made:
        return {}
    usual = {item.grantee for item in default_acl(kind, owner)}
    of_column = "" if column is None else f" ({column})"
    items = parse_acl(stored) or ()
    given = [item.grantee for item in items if item.grantee not in usual]
    more = {item.grantee for item in items if item.grantee in usual and item.options}
    undone = [f"REVOKE ALL{of_column} ON {words} FROM {naming.role(session, each)};" for each in dict.fromkeys(given)]
    undone += [
        f"REVOKE GRANT OPTION FOR ALL{of_column} ON {words} FROM {naming.role(session, each)};" for each in sorted(more)
    ]
    undone += [f"GRANT ALL{of_column} ON {words} TO {naming.role(session, each)};" for each in sorted(usual)]
    fact = Fact(phase, made, tuple(undone), anew=True, undone_in=phase - 0.5)  # before the owner changes
    return {f"privileges {words} {column or ''}": fact}
