"""The definitions of roles: attributes, memberships, settings. Passwords cannot be compared: a role keeps its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.catalog.classes import PG_AUTHID
from pgrepl.catalog.comments import shared_comment_on
from pgrepl.catalog.databases import database_name
from pgrepl.catalog.roles import memberships, role_name, settings_of_roles
from pgrepl.sql.quote import quote_identifier, quote_literal
from pgrepl.statements.comparison.definition import Definition, Fact, Phase
from pgrepl.statements.comparison.facts import comment_fact
from pgrepl.statements.dump.shared import membership, own_roles, role_attributes, role_settings

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.catalog.tables import pg_authid


def role_definitions(session: Session) -> Iterator[Definition]:
    for role in own_roles(session):
        name = quote_identifier(role.rolname)
        words = f"ROLE {name}"
        facts = {
            "attributes": Fact(Phase.ROLES, (f"ALTER {words} WITH {_attributes(role)};",)),
            **comment_fact(words, shared_comment_on(session, PG_AUTHID, role.oid), Phase.ROLES),
            **dict(_memberships(session, role)),
            **dict(_settings(session, role)),
        }
        if role.rolpassword is not None:
            facts["password"] = Fact(
                Phase.ROLES,
                (f"ALTER {words} PASSWORD {quote_literal(role.rolpassword)};",),
                (f"ALTER {words} PASSWORD NULL;",),
            )
        attributes = f"ALTER {words} WITH {role_attributes(role, passwords=False)};"
        others = (text for name, fact in facts.items() if name != "attributes" for text in fact.made)
        made = [f"CREATE {words};", attributes, *others]
        steps: list[tuple[float, str]] = [(Phase.ROLES, text) for text in made]
        yield Definition("role", name, steps, words, facts)


def _attributes(role: pg_authid) -> str:
    """CONNECTION LIMIT and VALID UNTIL are always said, so that they can be taken back."""
    text = role_attributes(role._replace(rolconnlimit=-1, rolvaliduntil=None), passwords=False)
    until = "infinity" if role.rolvaliduntil is None else role.rolvaliduntil
    return f"{text} CONNECTION LIMIT {role.rolconnlimit} VALID UNTIL {quote_literal(until)}"


def _memberships(session: Session, role: pg_authid) -> Iterator[tuple[str, Fact]]:
    """The memberships of the role."""
    for grant in sorted(memberships(session), key=lambda g: (g.roleid, g.grantor)):
        if grant.member == role.oid:
            above, by = (quote_identifier(role_name(session, oid)) for oid in (grant.roleid, grant.grantor))
            undone = f"REVOKE {above} FROM {quote_identifier(role.rolname)} GRANTED BY {by};"
            fact = Fact(Phase.ROLES, (membership(session, grant),), (undone,), is_object=True)
            yield f"member of {above} by {by}", replace(fact, anew=True)


def _settings(session: Session, role: pg_authid) -> Iterator[tuple[str, Fact]]:
    for row in settings_of_roles(session):
        if row.setrole != role.oid:
            continue
        database = "" if not row.setdatabase else database_name(session, row.setdatabase) or ""
        for text in role_settings(role.rolname, database, row.setconfig):
            before, _, setting = text.partition(" SET ")
            name = setting.partition(" TO ")[0]
            yield f"{before} {name}", Fact(Phase.ROLES, (text,), (f"{before} RESET {name};",))
