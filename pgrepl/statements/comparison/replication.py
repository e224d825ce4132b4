"""The definitions of publications and subscriptions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pgrepl.catalog.classes import PG_PUBLICATION, PG_SUBSCRIPTION
from pgrepl.catalog.comments import comment_on
from pgrepl.catalog.publication_facts import (
    MemberTable,
    PublicationFacts,
    member_schemas,
    member_tables,
    publication_facts,
)
from pgrepl.catalog.subscription_facts import SubscriptionFacts, subscription_facts
from pgrepl.expr.deparse import stored_expression_text
from pgrepl.sql.quote import quote_identifier, quote_literal
from pgrepl.statements.comparison.definition import Definition, Fact, Phase
from pgrepl.statements.comparison.facts import comment_fact
from pgrepl.statements.dump import naming

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


def publication_definitions(session: Session) -> Iterator[Definition]:
    for each in publication_facts(session):
        name = quote_identifier(each.name)
        words = f"PUBLICATION {name}"
        members = _members(session, each)
        options = f"publish = '{', '.join(each.operations)}', publish_via_partition_root = {str(each.via_root).lower()}"
        for_what = " FOR ALL TABLES" if each.all_tables else f" FOR {', '.join(members.values())}" if members else ""
        made = [f"CREATE {words}{for_what} WITH ({options});", naming.owner(session, words, each.owner)]
        facts = {
            "options": Fact(Phase.PUBLICATIONS, (f"ALTER {words} SET ({options});",)),
            "owner": Fact(Phase.PUBLICATIONS, (made[1],)),
            **comment_fact(words, comment_on(session, PG_PUBLICATION, each.oid), Phase.PUBLICATIONS),
        }
        made += [text for key, fact in facts.items() if key.startswith("comment") for text in fact.made]
        if members:  # all at once, so that no change of a table goes unpublished between two statements
            changed, gone = ", ".join(sorted(members.values())), ", ".join(members)
            facts["members"] = Fact(
                Phase.PUBLICATIONS,
                (f"ALTER {words} SET {changed};",),
                (f"ALTER {words} DROP {gone};",),
                compared=tuple(sorted(_members(session, each, by_name=True).values())),
            )
        fixed = {"FOR ALL TABLES": "yes" if each.all_tables else "no"}
        steps: list[tuple[float, str]] = [(Phase.PUBLICATIONS, text) for text in made]
        described = Definition("publication", name, steps, words, facts, fixed=fixed)
        for key, text in members.items():
            if text != key:  # a column list or a row filter keeps its columns as they are
                table = key.removeprefix("TABLE ONLY ")
                described.holds[table] = (f"ALTER {words} DROP {key};", facts["members"].made)
        yield described


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


def subscription_definitions(session: Session, typed: Mapping[str, str]) -> Iterator[Definition]:
    """`typed`: the statements that have made them, where that is known."""
    for each in subscription_facts(session):
        name = quote_identifier(each.name)
        words = f"SUBSCRIPTION {name}"
        options = _options(each)
        listed = ", ".join(map(quote_identifier, each.publications))
        usual = {"slot_name": quote_literal(each.name), **_USUAL}
        given = [f"{option} = {value}" for option, value in options.items() if value != usual[option]]
        given += ["two_phase = on"] if each.two_phase != "d" else []
        given += [] if each.enabled else ["enabled = false"]
        with_given = f" WITH ({', '.join(given)})" if given else ""
        made = typed.get(each.name) or (
            f"CREATE {words} CONNECTION {quote_literal(each.conninfo)} PUBLICATION {listed}{with_given};"
        )
        facts = {
            "owner": Fact(Phase.SUBSCRIPTIONS, (naming.owner(session, words, each.owner),)),
            "connection": Fact(Phase.SUBSCRIPTIONS, (f"ALTER {words} CONNECTION {quote_literal(each.conninfo)};",)),
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


_USUAL = {
    "binary": "false", "streaming": "off", "synchronous_commit": "'off'", "disable_on_error": "false",
    "password_required": "true", "run_as_owner": "false", "origin": "any", "failover": "false",
    "schema_changes": "none", "conflict_log": "false",
}  # fmt: skip


def _options(each: SubscriptionFacts) -> dict[str, str]:
    def word(value: bool) -> str:
        return "true" if value else "false"

    return {
        "slot_name": "NONE" if each.slot is None else quote_literal(each.slot),
        "binary": word(each.binary),
        "streaming": each.streaming,
        "synchronous_commit": quote_literal(each.synchronous_commit),
        "disable_on_error": word(each.disable_on_error),
        "password_required": word(each.password_required),
        "run_as_owner": word(each.run_as_owner),
        "origin": each.origin.lower(),
        "failover": word(each.failover),
        "schema_changes": each.schema_changes,
        "conflict_log": word(each.conflict_log),
    }


def _set_publications(words: str, each: SubscriptionFacts) -> str:
    """A disabled subscription is not refreshed."""
    listed = ", ".join(sorted(map(quote_identifier, each.publications)))
    return f"ALTER {words} SET PUBLICATION {listed}{'' if each.enabled else ' WITH (refresh = false)'};"
