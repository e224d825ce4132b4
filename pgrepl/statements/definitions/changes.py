"""The statements that bring one set of definitions to another, and a script that makes all of one, as pg_dump's does.

`pgrepl plan` and `diff` compare all that is defined, or what matters to replication from one database to the other:
that the subscriber has the published tables with their columns and types, a key where the publisher has one, and takes
every row. Defaults, identities, indexes and other constraints do not.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING

from pgrepl.catalog.facts.namespace import QUALIFIED
from pgrepl.catalog.facts.publication import permanent_sequences
from pgrepl.catalog.facts.relation import relation
from pgrepl.catalog.facts.sequences import sequence_row
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.store.store import rows
from pgrepl.catalog.store.tables import pg_constraint
from pgrepl.ground.errors import PgError
from pgrepl.sql.keywords import quote_identifier, quote_literal
from pgrepl.statements.definitions import naming
from pgrepl.statements.definitions.definition import (
    Definition,
    Fact,
    Key,
    Phase,
    RoutineParts,
    anew,
    changed_columns,
    gone_columns,
    placed_parts,
    relation_parts,
)
from pgrepl.statements.definitions.relations import relation_definitions, relation_facts, schema_definitions
from pgrepl.statements.definitions.replication import (
    SPEAK_18,
    dump_publications,
    dump_subscriptions,
    publication_definitions,
    server_definitions,
    subscription_definitions,
)
from pgrepl.statements.definitions.routines import (
    LATE,
    can_be_added,
    changed_attributes,
    collation_definitions,
    gone_attributes,
    new_labels,
    operator_definitions,
    routine_definitions,
    type_definitions,
)
from pgrepl.statements.definitions.shared import KIND as DEFAULT_PRIVILEGES
from pgrepl.statements.definitions.shared import default_privilege_definitions, role_definitions

if TYPE_CHECKING:
    from pgrepl.replication.publisher.postgres.types import ServerStatement
    from pgrepl.statements.definitions.definition import ColumnFacts

VIEWS = ("view", "materialized view")
KINDS = (
    "role", "schema", "collation", "type", "routine", "operator", "sequence", "table", *VIEWS, "publication",
    "server", "user mapping", "subscription", DEFAULT_PRIVILEGES,
)  # fmt: skip
_DROPPED_TOGETHER = (*VIEWS, "table", "sequence", "schema")
_DROP_ORDER = (
    ("subscription",), ("user mapping",), ("server",), ("publication",), VIEWS, ("table",), ("operator",), ("routine",),
    ("sequence",), ("type",), ("collation",), ("schema",), ("role",),
)  # fmt: skip
# constraints that PostgreSQL 17 does not know, in statements that this room has written
_NAME = r'(?:"(?:[^"]|"")*"|[^\s"])+'
_NEWER = re.compile(
    rf"CONSTRAINT {_NAME} NOT NULL| NOT NULL NO INHERIT|CONSTRAINT {_NAME} (NO )?INHERIT;"
    r"| NOT ENFORCED| WITHOUT OVERLAPS\)|, PERIOD "
    rf"|^ALTER TABLE (?!ONLY ){_NAME} ADD CONSTRAINT {_NAME} FOREIGN KEY .* NOT VALID;"  # of a partitioned table
)
_ROUTINES = ("CREATE FUNCTION", "CREATE PROCEDURE", "CREATE OR REPLACE FUNCTION", "CREATE OR REPLACE PROCEDURE")

Definitions = dict[Key, Definition]


def definitions(
    session: Session, kinds: Collection[str] = KINDS, typed: Mapping[str, str] | None = None
) -> Definitions:
    """The definitions of a database, and the roles of its instance."""
    listings: list[Iterable[Definition]] = []
    with session.settings.during(QUALIFIED):
        if "role" in kinds:
            listings.append(role_definitions(session))
        facts = relation_facts(session)
        placed = list(placed_parts(session, facts))
        listings += [
            schema_definitions(session),
            collation_definitions(session),
            type_definitions(session),
            operator_definitions(session, placed),
            relation_definitions(session, facts, placed),
            routine_definitions(session, placed),
            publication_definitions(session),
            server_definitions(session),
            subscription_definitions(session, typed or {}),
            default_privilege_definitions(session),
        ]
        return {definition.key: definition for listed in listings for definition in listed if definition.kind in kinds}


@dataclass
class Changes:
    """Statements in the order in which they can be run; `left`: how much is as it was, because it would be dropped."""

    statements: list[str]
    left: int


@dataclass
class _Work:
    drops: bool
    steps: list[tuple[float, str]] = field(default_factory=list)
    dropped: list[Definition] = field(default_factory=list)
    releases: list[str] = field(default_factory=list)
    let_go: list[Definition] = field(default_factory=list)  # views that are made again
    left: int = 0

    def drop(self, steps: Iterable[tuple[float, str]]) -> None:
        """Steps that drop something, if that is wanted; what is not dropped is counted."""
        dropping = list(steps)
        if self.drops:
            self.steps += dropping
        else:
            self.left += len(dropping)


def changes(
    have: Definitions,
    wanted: Definitions,
    *,
    drops: bool,
    without: Collection[str] = (),
    there: Definitions | None = None,
) -> Changes:
    """`without`: the beginnings of the names of facts that are not compared; `there`: all that there is, if `have` is
    only a part of it."""
    work = _Work(drops)
    for key, after in wanted.items():
        before = have.get(key)
        if before is None:
            work.steps += _made(after, have)
        elif not _is_fixed(work, before, after):
            work.dropped.append(before)
            kept = after.kind in ("collation", "type", "routine", "operator")
            work.steps += [(phase if kept else max(phase, float(Phase.RELATIONS)), text) for phase, text in after.made]
        else:
            _columns(work, before, after)
            _parts_of_type(work, before, after)
            _facts(work, before, after, without)
    for key, before in have.items():
        if key not in wanted:
            owner = before.facts.get("owned by") if before.kind == "sequence" else None
            if owner is not None:
                _drop_owned(work, before, owner, wanted)
            elif drops and before.kind == DEFAULT_PRIVILEGES:
                _undo(work, before.facts[DEFAULT_PRIVILEGES])
            elif drops:
                work.dropped.append(before)
            else:
                work.left += 1
    _let_go(work, have if there is None else there, wanted)
    remade = {definition.name for definition in work.dropped if definition.key in wanted}
    needing = (*VIEWS, "user mapping")
    at_once = [e for e in work.dropped if e.key in wanted or e.kind in needing or remade & e.holds.keys()]
    first = list(_drop_statements([*at_once, *work.let_go]))
    if any(text.startswith(_ROUTINES) for _, text in work.steps):
        work.steps.insert(0, (0, "SET check_function_bodies = false;"))
    if any(_NEWER.search(text) for _, text in work.steps):
        work.steps.insert(0, (0, SPEAK_18))
    last = list(_drop_statements([definition for definition in work.dropped if definition not in at_once]))
    steps = sorted(work.steps, key=lambda step: step[0])
    early = [text for phase, text in steps if phase < Phase.TYPES]
    later = [text for phase, text in steps if phase >= Phase.TYPES]
    return Changes([*early, *work.releases, *first, *later, *last], work.left)


def _made(new: Definition, have: Definitions) -> list[tuple[float, str]]:
    if new.owner and "owned by" in new.facts:
        return _owned_later(new, have)
    if new.of_parent is not None and ("table", new.of_parent[0]) in have:
        return [step for step in new.made if step[1] not in new.of_parent[1]]
    return new.made


def _owned_later(sequence: Definition, have: Definitions) -> list[tuple[float, str]]:
    """A new sequence of a table that there is belongs to it when both have the same owner."""
    owned = sequence.facts["owned by"].made[0]
    if not any(f" OWNED BY {name}." in owned for kind, name in have if kind == "table"):
        return sequence.made
    rest = [(phase, text) for phase, text in sequence.made if text != owned]
    return [*rest, (Phase.ATTRIBUTES + 0.8, sequence.owner), (Phase.ATTRIBUTES + 0.9, owned)]


def _drop_owned(work: _Work, sequence: Definition, owner: Fact, wanted: Definitions) -> None:
    """A sequence goes with the column that it belongs to, or earlier if that stays."""
    for table in wanted.values():
        if any(f" OWNED BY {table.name}.{_quoted(column)};" in owner.made[0] for column in table.columns or ()):
            work.drop([(Phase.COLUMNS + 0.5, f"DROP SEQUENCE {sequence.name};")])


def _let_go(work: _Work, there: Definitions, wanted: Definitions) -> None:
    """Views and row filters keep the types of the columns that they look at, operators their functions: they go before
    one changes, and are made again as they were, or are to be."""
    held = {before.name for before in there.values() if _changes_type(work, before)}
    held |= {definition.name for definition in work.dropped if definition.key in wanted}
    dropped = {definition.key for definition in work.dropped}
    for key, definition in there.items():  # what others look at comes first
        if not held & definition.holds.keys() or key in dropped:
            continue
        if definition.kind == "operator":  # its function is made anew
            held.add(definition.name)
            work.let_go.append(definition)
            work.steps += wanted[key].made if key in wanted else definition.made
            continue
        if definition.kind in VIEWS:
            held.add(definition.name)
            already = [made for _, made in wanted[key].made] if key in wanted else []
            remade = next(iter(definition.holds.values()))[1]
            work.steps = [step for step in work.steps if not _is_about(step[1], definition)]
            work.let_go.append(definition)
            work.steps += [(Phase.RELATIONS, text) for text in already or remade]
            continue
        after = wanted.get(key, definition)
        members = after.facts.get("members")
        if members is None:  # all of them go, only earlier
            emptied = definition.facts["members"].undone
            work.releases += emptied
            work.steps = [step for step in work.steps if step[1] not in emptied]
            continue
        work.releases += [definition.holds[table][0] for table in sorted(held & definition.holds.keys())]
        work.steps = [step for step in work.steps if step[1] not in members.made]
        work.steps += [(Phase.PUBLICATIONS, text) for text in members.made]


def _changes_type(work: _Work, before: Definition) -> bool:
    start = f"ALTER TABLE {before.name} ALTER COLUMN "
    return any(text.startswith(start) and " TYPE " in text for _, text in work.steps)


def _is_about(text: str, view: Definition) -> bool:
    """Is it a statement of an altered view, which is made anew instead?"""
    return text.startswith((f"CREATE OR REPLACE VIEW {view.name} ", f"ALTER {view.kind.upper()} {view.name} "))


def _is_fixed(work: _Work, before: Definition, after: Definition) -> bool:
    """Is what cannot be altered the same? Otherwise the object is dropped and made again, if drops are wanted."""
    wrong = [name for name, value in after.fixed.items() if before.fixed.get(name) != value]
    if after.kind == "view" and wrong:
        wrong = [] if f"{after.fixed['columns']}, ".startswith(f"{before.fixed['columns']}, ") else wrong
    if after.kind == "routine" and wrong == ["defaults"]:  # OR REPLACE can add some
        wrong = [] if int(before.fixed["defaults"]) < int(after.fixed["defaults"]) else wrong
    if not can_be_added(before.labels, after.labels):
        wrong.append("labels")
    if wrong and not work.drops:
        raise PgError(
            "0A000",
            f"{after.kind} {after.name} cannot be altered to what is declared: {', '.join(wrong)}",
            hint=f"With --drop the {after.kind} is dropped and made again.",
        )
    return not wrong


def _columns(work: _Work, before: Definition, after: Definition) -> None:
    if before.columns is None or after.columns is None:
        return
    for name in anew(before.columns, after.columns):
        if not work.drops:
            raise PgError(
                "0A000",
                f'column "{name}" of {after.kind} {after.name} cannot be altered to what is declared:'
                " it is to be generated",
                hint="With --drop the column is dropped and made again.",
            )
        whole = after.columns[name]
        work.steps.append((Phase.COLUMNS, f"ALTER TABLE {after.name} DROP COLUMN {_quoted(name)};"))
        work.steps.append((Phase.COLUMNS, f"ALTER TABLE {after.name} ADD COLUMN {whole.definition};"))
    work.steps += changed_columns(after.name, before.columns, after.columns)
    work.drop(gone_columns(after.name, before.columns, after.columns))


def _parts_of_type(work: _Work, before: Definition, after: Definition) -> None:
    work.steps += new_labels(after.name, before.labels, after.labels)
    if before.attributes is None or after.attributes is None:
        return
    work.steps += changed_attributes(after.name, before.attributes, after.attributes)
    work.drop(gone_attributes(after.name, before.attributes, after.attributes))


def _quoted(name: str) -> str:
    return quote_identifier(name)


def _facts(work: _Work, before: Definition, after: Definition, without: Collection[str]) -> None:
    revoked = tuple(_revoked(before, after))
    replaced = {f"column {_quoted(name)}" for name in anew(before.columns or {}, after.columns or {})}
    for name, fact in after.facts.items():
        known = before.facts.get(name)
        same = known is not None and known.meaning == fact.meaning and fact.of not in replaced
        same = same and not (name.startswith(revoked) and name not in revoked)
        if name.startswith(tuple(without)) or same:
            continue
        replaced.add(name)  # what goes with it is as it was at first
        if known is not None and name == "password":
            continue
        if known is not None and known.anew:
            _undo(work, known)
        work.steps += [(fact.phase, text) for text in fact.made]
    gone = before.facts.keys() - after.facts.keys()
    gone |= {f"column {_quoted(name)}" for name in _parts(before) - _parts(after)}
    for name, fact in before.facts.items():
        if name in after.facts or name.startswith(tuple(without)) or fact.of in gone:
            continue
        if fact.is_object and not work.drops:
            work.left += 1
        else:
            _undo(work, fact)


def _revoked(before: Definition, after: Definition) -> Iterator[str]:
    """Privileges that go first; those of columns, whose facts begin with the same words, go with a relation's."""
    for name, fact in before.facts.items():
        then = after.facts.get(name)
        if name.startswith("privileges") and (then is None or then.meaning != fact.meaning):
            yield name


def _undo(work: _Work, fact: Fact) -> None:
    work.steps += [(fact.undone_in or fact.phase, text) for text in fact.undone]


def _parts(relation: Definition) -> set[str]:
    """The names of the columns, or the attributes."""
    return {*(relation.columns or ()), *(relation.attributes or ())}


def _drop_statements(dropped: list[Definition]) -> Iterator[str]:
    for kinds in _DROP_ORDER:
        for kind, of_kind in groupby(
            [definition for definition in reversed(dropped) if definition.kind in kinds],
            lambda definition: definition.kind,
        ):
            if kind in _DROPPED_TOGETHER:
                yield f"DROP {kind.upper()} {', '.join(definition.name for definition in of_kind)};"
            else:
                yield from (f"DROP {definition.dropped};" for definition in of_kind)


Published = Mapping[str, Collection[str]]  # the columns of each table, by its qualified name


def leave_out(unread: Iterable[ServerStatement], *sides: Definitions) -> None:
    """Leave out what these statements would make."""
    for statement in unread:
        for side in sides:
            for key in [key for key in side if key[1] == statement.of and statement.kind in ("", key[0])]:
                definition = side.pop(key)
                if statement.part:
                    side[key] = _without(definition, statement.part)


def _without(whole: Definition, part: str) -> Definition:
    facts = {name: fact for name, fact in whole.facts.items() if part not in (name, fact.of)}
    columns = {name: column for name, column in (whole.columns or {}).items() if part != f"column {_quoted(name)}"}
    return replace(whole, facts=facts, columns=None if whole.columns is None else columns)


def what_matters(have: Definitions, wanted: Definitions, published: Published) -> tuple[Definitions, Definitions]:
    """The subscriber's and the publisher's definitions, without what does not matter."""
    here: Definitions = {}
    there: Definitions = {}
    for key, after in wanted.items():
        kind, name = key
        if kind != "table" or name not in published or after.columns is None:
            continue
        before = have.get(key)
        if before is None or before.columns is None:
            there[key] = after
            continue
        sent = [column for column in after.columns if column in published[name]]
        here[key] = replace(
            before,
            facts={},
            columns={c: _taking(before.columns[c], after.columns[c]) for c in sent if c in before.columns},
        )
        there[key] = replace(
            after,
            facts={} if _keys(before) else _keys(after),
            columns={c: _given(after.columns[c], is_there=c in before.columns) for c in sent},
        )
    return here, there


def _keys(table: Definition) -> dict[str, Fact]:
    return {name: fact for name, fact in table.facts.items() if " PRIMARY KEY " in fact.made[0]}


def _taking(here: ColumnFacts, there: ColumnFacts) -> ColumnFacts:
    """The subscriber's column; that it takes no NULL matters where the publisher's does."""
    return _plain(here, there, notnull=here.notnull and not there.notnull)


def _given(there: ColumnFacts, *, is_there: bool) -> ColumnFacts:
    """The publisher's column, as it is made or compared."""
    return _plain(there, there, notnull=False) if is_there else there


def _plain(column: ColumnFacts, there: ColumnFacts, *, notnull: bool) -> ColumnFacts:
    """A column by its type, and whether it takes NULL."""
    return replace(
        column,
        definition=there.definition,
        default=None,
        generated="",
        identity="",
        identity_clause="",
        identity_options="",
        inherited=False,
        notnull=notnull,
        not_null=("", ""),
    )


def dump(
    session: Session, *, schema: bool, publications: bool, subscriptions: bool, sequence_data: bool = False
) -> Iterator[str]:
    """The statements, each with its semicolon. They mean the same whatever search_path is where they are run."""
    with session.settings.during(QUALIFIED):
        if schema:
            if _has_newer_constraints(session):
                yield SPEAK_18
            yield from _definitions(session)
        if sequence_data:
            yield from _values(session)
        if publications:
            yield from dump_publications(session)
        if subscriptions:
            yield from dump_subscriptions(session)


def _has_newer_constraints(session: Session) -> bool:
    """Has the database constraints that PostgreSQL 17 does not know?"""
    constraints = rows(session, pg_constraint, datid=session.database_oid)
    return any(
        row.conperiod
        or not row.conenforced
        or (row.contype == "n" and row.conrelid)
        or (row.contype == "f" and not row.convalidated and relation(session, row.conrelid).kind == "p")
        for row in constraints
    )


def _definitions(session: Session) -> Iterator[str]:
    types, routines = list(type_definitions(session)), RoutineParts(session)
    yield from _texts([*schema_definitions(session), *collation_definitions(session)])
    yield from (text for type_definition in types for phase, text in type_definition.made if phase != LATE)
    yield from (text for _, text in routines.first())
    yield from (text for type_definition in types for phase, text in type_definition.made if phase == LATE)
    yield from (text for _, text in relation_parts(session, relation_facts(session), routines))
    yield from _texts(routine_definitions(session))
    yield from _texts(sorted(operator_definitions(session), key=lambda operator: operator.name))
    yield from _texts(default_privilege_definitions(session))


def _texts(definitions: Iterable[Definition]) -> Iterator[str]:
    return (text for definition in definitions for _, text in definition.made)


def _values(session: Session) -> Iterator[str]:
    """Set each permanent sequence to its value here: it is no part of the definition."""
    for oid in permanent_sequences(session):
        row = sequence_row(session, oid)
        name = quote_literal(naming.qualified(relation(session, oid)))
        yield f"SELECT pg_catalog.setval({name}, {row.last_value}, {'true' if row.is_called else 'false'});"
