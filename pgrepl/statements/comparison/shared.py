"""The definitions of roles, default privileges, publications, foreign servers and subscriptions. Passwords cannot be
compared: a role keeps its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.catalog.facts import foreign
from pgrepl.catalog.facts.access import database_name
from pgrepl.catalog.facts.acl import ObjectKind, parse_acl, store_acl
from pgrepl.catalog.facts.objects import comment_on, shared_comment_on
from pgrepl.catalog.facts.privileges import KINDS, OBJECT_TYPES, built_in, default_entries
from pgrepl.catalog.facts.publication import (
    MemberTable,
    PublicationFacts,
    member_schemas,
    member_tables,
    publication_facts,
)
from pgrepl.catalog.facts.roles import memberships, role_name, settings_of_roles
from pgrepl.catalog.facts.subscription_facts import SubscriptionFacts, subscription_facts
from pgrepl.catalog.store.system import PG_AUTHID, PG_FOREIGN_SERVER, PG_PUBLICATION, PG_SUBSCRIPTION
from pgrepl.expr.print.deparse import stored_expression_text
from pgrepl.sql.keywords import quote_identifier, quote_literal
from pgrepl.statements.comparison.definition import Definition, Fact, Phase, comment_fact, privilege_facts
from pgrepl.statements.dump import naming
from pgrepl.statements.dump.naming import WORDS, changed_by, whose
from pgrepl.statements.dump.shared import (
    SPEAK_18,
    USUAL,
    all_objects,
    connection_of,
    create_mapping,
    create_server,
    mapping_words,
    membership,
    own_roles,
    role_attributes,
    role_settings,
    subscription_options,
)
from pgrepl.statements.roles.grant import KINDS_OF_OBJECTS

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.catalog.store.tables import pg_authid
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
        start = f"FOR ROLE {quote_identifier(role_of(session, role))}"
        for schema in schemas if isinstance(schemas, tuple) else (None,):
            place = "" if schema is None else f" IN SCHEMA {quote_identifier(str(schema))}"
            yield f"{start}{place} ON {words}"


def role_of(session: Session, role: RoleSpec | None) -> str:
    """The name of the role that is meant."""
    if role is not None and role.name is not None:
        return role.name
    is_session_user = role is not None and role.word == "session_user"
    return role_name(session, session.user if is_session_user else session.role)


# --- shared -----------------------------------------------------------------------------------------------------------


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


# --- replication ------------------------------------------------------------------------------------------------------


def publication_definitions(session: Session) -> Iterator[Definition]:
    for each in publication_facts(session):
        name = quote_identifier(each.name)
        words = f"PUBLICATION {name}"
        members = _members(session, each)
        options = f"publish = '{', '.join(each.operations)}', publish_via_partition_root = {str(each.via_root).lower()}"
        generated = f", publish_generated_columns = {each.generated}" if each.generated != "none" else ""
        everything = all_objects(session, each)
        listed = everything or ", ".join(members.values())
        for_what = f" FOR {listed}" if listed else ""
        owner = naming.owner(session, words, each.owner)
        made = [f"CREATE {words}{for_what} WITH ({options}{generated});", owner]
        facts = {
            "options": Fact(Phase.PUBLICATIONS, (f"ALTER {words} SET ({options});",)),
            "owner": Fact(Phase.PUBLICATIONS, (owner,)),
            **comment_fact(words, comment_on(session, PG_PUBLICATION, each.oid), Phase.PUBLICATIONS),
            **_generated_fact(words, each),
        }
        made += [text for key, fact in facts.items() if key.startswith("comment") for text in fact.made]
        newer = (SPEAK_18,) if any(m.lists_generated for m in member_tables(session, each)) else ()
        made = [*newer, *made]
        if everything:
            facts["members"] = Fact(Phase.PUBLICATIONS, (f"ALTER {words} SET {everything};",))
        elif members:  # all at once, so that no change of a table goes unpublished between two statements
            changed, gone = ", ".join(sorted(members.values())), ", ".join(members)
            facts["members"] = Fact(
                Phase.PUBLICATIONS,
                (*newer, f"ALTER {words} SET {changed};"),
                (f"ALTER {words} DROP {gone};",),
                compared=tuple(sorted(_members(session, each, by_name=True).values())),
            )
        fixed = {"FOR ALL": "yes" if everything else "no"}
        steps: list[tuple[float, str]] = [(Phase.PUBLICATIONS, text) for text in made]
        described = Definition("publication", name, steps, words, facts, fixed=fixed)
        for key, text in members.items():
            if text != key and not everything:  # a column list or a row filter keeps its columns as they are
                table = key.removeprefix("TABLE ONLY ")
                described.holds[table] = (f"ALTER {words} DROP {key};", facts["members"].made)
        yield described


def _generated_fact(words: str, publication: PublicationFacts) -> dict[str, Fact]:
    if publication.generated == "none":
        return {}
    made, undone = (f"ALTER {words} SET (publish_generated_columns = {word});" for word in ("stored", "none"))
    return {"generated columns": Fact(Phase.PUBLICATIONS, (made,), (undone,))}


def _members(session: Session, publication: PublicationFacts, *, by_name: bool = False) -> dict[str, str]:
    """The clauses that drop and add each member of a publication. `by_name`: column lists in the order of the names, as
    the columns of the tables that are compared may have another."""
    found = {}
    for member in member_tables(session, publication):
        words = f"TABLE ONLY {naming.qualified(member.table)}"
        found[words] = words + _restrictions(session, member, by_name)
    for schema in member_schemas(session, publication):
        words = f"TABLES IN SCHEMA {quote_identifier(schema)}"
        found[words] = words
    return found


def _restrictions(session: Session, member: MemberTable, by_name: bool) -> str:
    columns = member.columns
    if columns is not None and by_name:
        columns = tuple(sorted(columns))
    text = f" ({', '.join(map(quote_identifier, columns))})" if columns is not None else ""
    if member.filter is not None:
        text += f" WHERE ({stored_expression_text(session, member.filter, member.table.oid)})"
    return text


def server_definitions(session: Session) -> Iterator[Definition]:
    """Foreign servers and user mappings; options of mappings as far as the role may see them."""
    phase = Phase.PUBLICATIONS + 0.5
    for server in foreign.servers(session):
        name = quote_identifier(server.srvname)
        words = f"SERVER {name}"
        owner = naming.owner(session, words, server.srvowner)
        facts = {
            "owner": Fact(phase, (owner,)),
            **privilege_facts(
                session,
                f"FOREIGN {words}",
                ObjectKind.FOREIGN_SERVER,
                server.srvowner,
                server.srvacl,
                phase=phase + 0.1,
            ),
            **comment_fact(words, comment_on(session, PG_FOREIGN_SERVER, server.oid), phase),
        }
        others = [(fact.phase, text) for fact in facts.values() for text in fact.made]
        facts |= _option_facts(words, server.srvoptions, phase)
        if server.srvversion is not None:
            made = f"ALTER {words} VERSION {quote_literal(server.srvversion)};"
            facts["version"] = Fact(phase, (made,), (f"ALTER {words} VERSION NULL;",))
        fixed = {"wrapper": foreign.WRAPPERS[server.srvfdw], "type": str(server.srvtype)}
        yield Definition("server", name, [(phase, create_server(server)), *others], words, facts, fixed=fixed)
        for mapping in foreign.mappings(session, server.oid):
            seen = mapping.umoptions if foreign.may_see_options(session, mapping, server) else None
            mapped = mapping_words(session, mapping, server)
            of_mapping = phase + 0.2
            steps: list[tuple[float, str]] = [(of_mapping, create_mapping(session, mapping, server, seen))]
            name = mapped.removeprefix("USER MAPPING ")
            yield Definition("user mapping", name, steps, mapped, _option_facts(mapped, seen, of_mapping), fixed=fixed)


def _option_facts(words: str, stored: Sequence[str] | None, phase: float) -> dict[str, Fact]:
    found = {}
    for name, value in foreign.options_of(stored).items():
        option = quote_identifier(name)
        made = f"ALTER {words} OPTIONS (ADD {option} {quote_literal(value)});"
        found[f"option {name}"] = Fact(phase, (made,), (f"ALTER {words} OPTIONS (DROP {option});",), anew=True)
    return found


def subscription_definitions(session: Session, typed: Mapping[str, str]) -> Iterator[Definition]:
    """`typed`: the statements that have made them, where that is known."""
    for each in subscription_facts(session):
        name = quote_identifier(each.name)
        words = f"SUBSCRIPTION {name}"
        options = subscription_options(each)
        listed = ", ".join(map(quote_identifier, each.publications))
        usual = {**USUAL, "slot_name": quote_literal(each.name)}
        usual["streaming"] = "parallel" if session.settings.release >= 18 else "off"
        given = [f"{option} = {value}" for option, value in options.items() if value != usual[option]]
        given += ["two_phase = on"] if each.two_phase != "d" else []
        given += [] if each.enabled else ["enabled = false"]
        with_given = f" WITH ({', '.join(given)})" if given else ""
        made = typed.get(each.name) or (f"CREATE {words} {connection_of(each)} PUBLICATION {listed}{with_given};")
        facts = {
            "owner": Fact(Phase.SUBSCRIPTIONS, (naming.owner(session, words, each.owner),)),
            "connection": Fact(Phase.SUBSCRIPTIONS, (f"ALTER {words} {connection_of(each)};",)),
            **{
                option: Fact(Phase.SUBSCRIPTIONS, (f"ALTER {words} SET ({option} = {value});",))
                for option, value in options.items()
            },
            "enabled": Fact(Phase.SUBSCRIPTIONS, (f"ALTER {words} {'ENABLE' if each.enabled else 'DISABLE'};",)),
            "publications": Fact(Phase.SUBSCRIPTIONS, (_set_publications(words, each),)),
            **comment_fact(words, comment_on(session, PG_SUBSCRIPTION, each.oid), Phase.SUBSCRIPTIONS),
        }
        statements = [made, *facts["owner"].made]
        statements += [text for key, fact in facts.items() if key.startswith("comment") for text in fact.made]
        fixed = {"two_phase": "on" if each.two_phase != "d" else "off"}
        steps: list[tuple[float, str]] = [(Phase.SUBSCRIPTIONS, text) for text in statements]
        yield Definition("subscription", name, steps, words, facts, fixed=fixed)


def _set_publications(words: str, each: SubscriptionFacts) -> str:
    """A disabled subscription is not refreshed."""
    listed = ", ".join(sorted(map(quote_identifier, each.publications)))
    return f"ALTER {words} SET PUBLICATION {listed}{'' if each.enabled else ' WITH (refresh = false)'};"
