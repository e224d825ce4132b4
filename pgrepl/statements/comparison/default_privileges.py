"""The definitions of default privileges: one for each role, schema and kind of objects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pgrepl.catalog.acl import parse_acl, store_acl
from pgrepl.catalog.default_privileges import KINDS, OBJECT_TYPES, built_in, default_entries
from pgrepl.catalog.roles import role_name
from pgrepl.sql.quote import quote_identifier
from pgrepl.statements.comparison.definition import Definition, Fact, Phase
from pgrepl.statements.dump import naming
from pgrepl.statements.dump.default_privileges import WORDS, changed_by, whose
from pgrepl.statements.grant import KINDS_OF_OBJECTS

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.sql.nodes import AlterDefaultPrivilegesStmt, RoleSpec

KIND = "default privileges"  # the name of the one fact, too
_BEFORE, _BEHIND = 0.5, Phase.SUBSCRIPTIONS + 0.5  # objects that are made meanwhile have privileges of their own


def default_privilege_definitions(session: Session) -> Iterator[Definition]:
    for entry in default_entries(session):
        kind = KINDS[entry.defaclobjtype]
        usual = store_acl(built_in(kind, entry.defaclrole, entry.defaclnamespace))
        words, start = WORDS[entry.defaclobjtype], whose(session, entry)
        now = parse_acl(entry.defaclacl) or ()
        undone = naming.acl_changes(session, words, entry.defaclrole, now, usual)
        made = tuple(changed_by(session, entry))
        alter = f"ALTER DEFAULT PRIVILEGES {start}"
        fact = Fact(_BEHIND, made, tuple(f"{alter} {text}" for text in undone), anew=True, undone_in=_BEFORE)
        name = f"{start} ON {words}"
        yield Definition(KIND, name, [(_BEHIND, text) for text in made], f"{KIND} {name}", {KIND: fact})


def named(stmt: AlterDefaultPrivilegesStmt, session: Session) -> Iterator[str]:
    """The names of what a statement changes."""
    given = {option.name: option.value for option in stmt.options}
    roles, schemas = given.get("roles"), given.get("schemas")
    words = WORDS[OBJECT_TYPES[KINDS_OF_OBJECTS[stmt.action.kind]]]
    for role in roles if isinstance(roles, tuple) else (None,):
        start = f"FOR ROLE {quote_identifier(_name(session, role))}"
        for schema in schemas if isinstance(schemas, tuple) else (None,):
            place = "" if schema is None else f" IN SCHEMA {quote_identifier(str(schema))}"
            yield f"{start}{place} ON {words}"


def _name(session: Session, role: RoleSpec | None) -> str:
    if role is not None and role.name is not None:
        return role.name
    is_session_user = role is not None and role.word == "session_user"
    return role_name(session, session.user if is_session_user else session.role)
