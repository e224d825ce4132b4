"""The definitions of publications, foreign servers and subscriptions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pgrepl.catalog.facts.acl import ObjectKind
from pgrepl.catalog.facts.publication import (
    MemberTable,
    PublicationFacts,
    member_schemas,
    member_tables,
    publication_facts,
)
from pgrepl.catalog.facts.roles import is_superuser, role_name
from pgrepl.catalog.facts.subscription import (
    PUBLIC,
    WRAPPERS,
    SubscriptionFacts,
    mappings,
    may_see_options,
    options_of,
    servers,
    subscription_facts,
)
from pgrepl.catalog.store.system import PG_FOREIGN_SERVER, PG_PUBLICATION, PG_SUBSCRIPTION
from pgrepl.expr.print.deparse import stored_expression_text
from pgrepl.sql.keywords import quote_identifier, quote_literal
from pgrepl.statements.definitions import naming
from pgrepl.statements.definitions.definition import Definition, Fact, Phase, Stage, statements, texts

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session

SPEAK_18 = "SET pgrepl.postgres_version = 18;"  # a statement behind it is one that 17 refuses


def dump_publications(session: Session) -> Iterator[str]:
    for publication in publication_facts(session):
        words = f"PUBLICATION {quote_identifier(publication.name)}"
        everything = _all_objects(session, publication)
        text = f"CREATE {words}{f' FOR {everything}' if everything else ''}"
        text += f" WITH (publish = '{', '.join(publication.operations)}'"
        text += ", publish_via_partition_root = true" if publication.via_root else ""
        yield f"{text}{_generated(publication)});"
        yield naming.owner(session, words, publication.owner)
        if not publication.all_tables:
            yield from _members_added(session, words, publication)
        yield from texts(naming.comment(session, words, PG_PUBLICATION, publication.oid))


def _all_objects(session: Session, publication: PublicationFacts) -> str:
    """ALL TABLES, with the tables that are left out, and ALL SEQUENCES, as far as it is a publication of these."""
    scopes = []
    if publication.all_tables:
        excepted = [f"TABLE ONLY {naming.qualified(member.table)}" for member in member_tables(session, publication)]
        scopes.append("ALL TABLES" + (f" EXCEPT ({', '.join(sorted(excepted))})" if excepted else ""))
    return ", ".join([*scopes, *(["ALL SEQUENCES"] if publication.all_sequences else [])])


def _generated(publication: PublicationFacts) -> str:
    return f", publish_generated_columns = {publication.generated}" if publication.generated != "none" else ""


def _members_added(session: Session, words: str, publication: PublicationFacts) -> Iterator[str]:
    members = _members(session, publication)
    schemas = [name for name, text in members.items() if name.startswith("TABLES ")]
    yield from (f"ALTER {words} ADD {name};" for name in schemas)
    yield from _speaking(session, publication)
    yield from (f"ALTER {words} ADD {text};" for name, text in members.items() if name not in schemas)


def _speaking(session: Session, publication: PublicationFacts) -> tuple[str, ...]:
    return (SPEAK_18,) if any(m.lists_generated for m in member_tables(session, publication)) else ()


def publication_definitions(session: Session) -> Iterator[Definition]:
    for publication in publication_facts(session):
        name = quote_identifier(publication.name)
        words = f"PUBLICATION {name}"
        members = _members(session, publication)
        options = f"publish = '{', '.join(publication.operations)}'"
        options += f", publish_via_partition_root = {str(publication.via_root).lower()}"
        everything = _all_objects(session, publication)
        listed = everything or ", ".join(members.values())
        for_what = f" FOR {listed}" if listed else ""
        newer = _speaking(session, publication)
        made = [*newer, f"CREATE {words}{for_what} WITH ({options}{_generated(publication)});"]
        facts = {
            "options": Fact(Phase.PUBLICATIONS, (f"ALTER {words} SET ({options});",), stage=Stage.NOWHERE),
            "owner": Fact(Phase.PUBLICATIONS, (naming.owner(session, words, publication.owner),)),
            **naming.comment(session, words, PG_PUBLICATION, publication.oid, phase=Phase.PUBLICATIONS),
            **_generated_fact(words, publication),
        }
        if everything:
            facts["members"] = Fact(Phase.PUBLICATIONS, (f"ALTER {words} SET {everything};",), stage=Stage.NOWHERE)
        elif members:  # all at once, so that no change of a table goes unpublished between two statements
            changed, gone = ", ".join(sorted(members.values())), ", ".join(members)
            facts["members"] = Fact(
                Phase.PUBLICATIONS,
                (*newer, f"ALTER {words} SET {changed};"),
                (f"ALTER {words} DROP {gone};",),
                compared=tuple(sorted(_members(session, publication, by_name=True).values())),
                stage=Stage.NOWHERE,
            )
        fixed = {"FOR ALL": "yes" if everything else "no"}
        steps: list[tuple[float, str]] = [(Phase.PUBLICATIONS, text) for text in made]
        steps += statements(facts)
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
    return {"generated columns": Fact(Phase.PUBLICATIONS, (made,), (undone,), stage=Stage.NOWHERE)}


def _members(session: Session, publication: PublicationFacts, *, by_name: bool = False) -> dict[str, str]:
    """The clauses that drop and add each member of a publication. `by_name`: column lists in the order of the names, as
    the columns of the tables that are compared may have another."""
    members = {}
    for member in member_tables(session, publication):
        words = f"TABLE ONLY {naming.qualified(member.table)}"
        members[words] = words + _restrictions(session, member, by_name)
    for schema in member_schemas(session, publication):
        words = f"TABLES IN SCHEMA {quote_identifier(schema)}"
        members[words] = words
    return members


def _restrictions(session: Session, member: MemberTable, by_name: bool) -> str:
    columns = member.columns
    if columns is not None and by_name:
        columns = tuple(sorted(columns))
    text = f" ({', '.join(map(quote_identifier, columns))})" if columns is not None else ""
    if member.filter is not None:
        text += f" WHERE ({stored_expression_text(session, member.filter, member.table.oid)})"
    return text


# --- foreign servers --------------------------------------------------------------------------------------------------


def server_definitions(session: Session) -> Iterator[Definition]:
    """Foreign servers and user mappings; options of mappings as far as the role may see them."""
    phase = Phase.PUBLICATIONS + 0.5
    for server in servers(session):
        name = quote_identifier(server.srvname)
        words = f"SERVER {name}"
        granted, kind = f"FOREIGN {words}", ObjectKind.FOREIGN_SERVER
        facts = {
            "owner": Fact(phase, (naming.owner(session, words, server.srvowner),)),
            **naming.privileges(session, granted, kind, server.srvowner, server.srvacl, phase=phase + 0.1),
            **naming.comment(session, words, PG_FOREIGN_SERVER, server.oid, phase=phase),
            **_option_facts(words, server.srvoptions, phase),
        }
        if server.srvversion is not None:
            made, undone = (f"ALTER {words} VERSION {w};" for w in (quote_literal(server.srvversion), "NULL"))
            facts["version"] = Fact(phase, (made,), (undone,), stage=Stage.NOWHERE)
        fixed = {"wrapper": WRAPPERS[server.srvfdw], "type": str(server.srvtype)}
        created = f"CREATE {words}"
        created += f" TYPE {quote_literal(server.srvtype)}" if server.srvtype is not None else ""
        created += f" VERSION {quote_literal(server.srvversion)}" if server.srvversion is not None else ""
        created += f" FOREIGN DATA WRAPPER {quote_identifier(WRAPPERS[server.srvfdw])}"
        created += f"{_foreign_options(server.srvoptions)};"
        yield Definition("server", name, [(phase, created), *statements(facts)], words, facts, fixed=fixed)
        for mapping in mappings(session, server.oid):
            seen = mapping.umoptions if may_see_options(session, mapping, server) else None
            who = "PUBLIC" if mapping.umuser == PUBLIC else quote_identifier(role_name(session, mapping.umuser))
            of_mapping, name = phase + 0.2, f"FOR {who} {words}"
            mapped = f"USER MAPPING {name}"
            steps = [(of_mapping, f"CREATE {mapped}{_foreign_options(seen)};")]
            yield Definition("user mapping", name, steps, mapped, _option_facts(mapped, seen, of_mapping), fixed=fixed)


def _option_facts(words: str, stored: Sequence[str] | None, phase: float) -> dict[str, Fact]:
    facts = {}
    for name, value in options_of(stored).items():
        option = quote_identifier(name)
        made = f"ALTER {words} OPTIONS (ADD {option} {quote_literal(value)});"
        undone = f"ALTER {words} OPTIONS (DROP {option});"
        facts[f"option {name}"] = Fact(phase, (made,), (undone,), anew=True, stage=Stage.NOWHERE)
    return facts


def _foreign_options(stored: Sequence[str] | None) -> str:
    options = options_of(stored).items()
    listed = ", ".join(f"{quote_identifier(name)} {quote_literal(value)}" for name, value in options)
    return f" OPTIONS ({listed})" if listed else ""


# --- subscriptions ----------------------------------------------------------------------------------------------------


def dump_subscriptions(session: Session) -> Iterator[str]:
    """Only a superuser may read the connection strings."""
    for server in server_definitions(session):
        yield from (text for _, text in server.made)
    subscriptions = subscription_facts(session)
    if not is_superuser(session):
        if subscriptions:
            session.notice("WARNING", "subscriptions not dumped because current user is not a superuser")
        return
    typed = {}
    for subscription in subscriptions:
        publications = ", ".join(map(quote_identifier, subscription.publications))
        typed[subscription.name] = (
            f"CREATE SUBSCRIPTION {quote_identifier(subscription.name)} {_connection(subscription)}"
            f" PUBLICATION {publications} WITH ({', '.join(_options(subscription, session.settings.release))});"
        )
    for described in subscription_definitions(session, typed):
        yield from (text for _, text in described.made)


def subscription_definitions(session: Session, typed: Mapping[str, str]) -> Iterator[Definition]:
    """`typed`: the statements that have made them, where that is known."""
    for subscription in subscription_facts(session):
        name = quote_identifier(subscription.name)
        words = f"SUBSCRIPTION {name}"
        options = _subscription_options(subscription)
        listed = ", ".join(map(quote_identifier, subscription.publications))
        usual = {**_USUAL, "slot_name": quote_literal(subscription.name)}
        usual["streaming"] = "parallel" if session.settings.release >= 18 else "off"
        given = [f"{option} = {value}" for option, value in options.items() if value != usual[option]]
        given += ["two_phase = on"] if subscription.two_phase != "d" else []
        given += [] if subscription.enabled else ["enabled = false"]
        with_given = f" WITH ({', '.join(given)})" if given else ""
        made = typed.get(subscription.name) or (
            f"CREATE {words} {_connection(subscription)} PUBLICATION {listed}{with_given};"
        )
        facts = {
            "owner": Fact(Phase.SUBSCRIPTIONS, (naming.owner(session, words, subscription.owner),)),
            "connection": _within(f"ALTER {words} {_connection(subscription)};"),
            **{option: _within(f"ALTER {words} SET ({option} = {value});") for option, value in options.items()},
            "enabled": _within(f"ALTER {words} {'ENABLE' if subscription.enabled else 'DISABLE'};"),
            "publications": _within(_set_publications(words, subscription)),
            **naming.comment(session, words, PG_SUBSCRIPTION, subscription.oid, phase=Phase.SUBSCRIPTIONS),
        }
        fixed = {"two_phase": "on" if subscription.two_phase != "d" else "off"}
        steps: list[tuple[float, str]] = [(Phase.SUBSCRIPTIONS, made), *statements(facts)]
        yield Definition("subscription", name, steps, words, facts, fixed=fixed)


def _within(made: str) -> Fact:
    """What CREATE SUBSCRIPTION says."""
    return Fact(Phase.SUBSCRIPTIONS, (made,), stage=Stage.NOWHERE)


def _set_publications(words: str, subscription: SubscriptionFacts) -> str:
    """A disabled subscription is not refreshed."""
    listed = ", ".join(sorted(map(quote_identifier, subscription.publications)))
    return f"ALTER {words} SET PUBLICATION {listed}{'' if subscription.enabled else ' WITH (refresh = false)'};"


def _connection(subscription: SubscriptionFacts) -> str:
    if subscription.server is not None:
        return f"SERVER {quote_identifier(subscription.server)}"
    return f"CONNECTION {quote_literal(subscription.conninfo)}"


def _options(subscription: SubscriptionFacts, release: int) -> Iterator[str]:
    """In the order of pg_dump's dumpSubscription; options with default values are left out."""
    yield "connect = false"
    options = _subscription_options(subscription)
    for name in _IN_ORDER:
        if name == "two_phase":
            if subscription.two_phase != "d":
                yield "two_phase = on"
        elif name == "synchronous_commit" and options[name] != _USUAL[name]:
            yield f"{name} = {quote_identifier(subscription.synchronous_commit)}"
        elif name == "origin" and options[name] != _USUAL[name]:
            yield f"{name} = {subscription.origin}"
        elif options[name] != _USUAL.get(name) or (name == "streaming" and release >= 18):
            yield f"{name} = {options[name]}"


_IN_ORDER = (
    "slot_name", "binary", "streaming", "two_phase", "disable_on_error", "password_required", "run_as_owner",
    "failover", "synchronous_commit", "origin", "schema_changes", "conflict_log", "retain_dead_tuples",
    "max_retention_duration", "sequences", "history",
)  # fmt: skip
_USUAL = {
    "binary": "false", "streaming": "off", "synchronous_commit": "'off'", "disable_on_error": "false",
    "password_required": "true", "run_as_owner": "false", "origin": "any", "failover": "false",
    "schema_changes": "none", "conflict_log": "false", "sequences": "false",
    "retain_dead_tuples": "false", "max_retention_duration": "0", "history": "none",
}  # fmt: skip


def _subscription_options(subscription: SubscriptionFacts) -> dict[str, str]:
    """The options that a subscription keeps, as SQL has them."""

    def word(value: bool) -> str:
        return "true" if value else "false"

    return {
        "slot_name": "NONE" if subscription.slot is None else quote_literal(subscription.slot),
        "binary": word(subscription.binary),
        "streaming": subscription.streaming,
        "synchronous_commit": quote_literal(subscription.synchronous_commit),
        "disable_on_error": word(subscription.disable_on_error),
        "password_required": word(subscription.password_required),
        "run_as_owner": word(subscription.run_as_owner),
        "origin": subscription.origin.lower(),
        "failover": word(subscription.failover),
        "schema_changes": subscription.schema_changes,
        "conflict_log": word(subscription.conflict_log),
        "sequences": word(subscription.sequences),
        "retain_dead_tuples": word(subscription.retain_dead_tuples),
        "max_retention_duration": str(subscription.max_retention_duration),
        "history": subscription.history,
    }
