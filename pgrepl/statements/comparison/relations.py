"""The definitions of schemas, tables, views and sequences."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pgrepl.catalog.facts.acl import ObjectKind
from pgrepl.catalog.facts.namespace import schemas
from pgrepl.catalog.facts.objects import comment_on
from pgrepl.catalog.facts.relation import Attribute, Relation, relation
from pgrepl.catalog.facts.relation_parts import not_nulls, parents
from pgrepl.catalog.facts.triggers import triggers_of
from pgrepl.catalog.store.store import one, rows
from pgrepl.catalog.store.system import PG_CLASS, PG_CONSTRAINT, PG_NAMESPACE, PG_TRIGGER
from pgrepl.catalog.store.tables import pg_constraint, pg_index, pg_inherits, pg_sequence
from pgrepl.expr.print.definitions import collate_clause, options_text, partition_key_definition, view_definition
from pgrepl.expr.print.routine_text import trigger_definition
from pgrepl.sql.keywords import quote_identifier
from pgrepl.statements.comparison.definition import ColumnFacts, Definition, Fact, Phase, comment_fact, privilege_facts
from pgrepl.statements.comparison.routines import called_by_view, used_by_view
from pgrepl.statements.dump import naming
from pgrepl.statements.dump.schema import (
    KINDS,
    WORDS,
    add_constraint,
    attach,
    create_index,
    create_materialized_view,
    needed_by,
    own_relations,
    relation_parts,
    schema_parts,
)
from pgrepl.statements.dump.table import (
    RoutineParts,
    column_definition,
    column_settings,
    default_of,
    enabled,
    identity_clause,
    identity_sequence,
    is_owned,
    is_printed,
    sequence_options,
    sequence_owner,
)
from pgrepl.types.names import format_type

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session

_KINDS = {"r": "table", "p": "table", "v": "view", "m": "materialized view", "S": "sequence"}
_REPLICA_IDENTITY = {"d": "DEFAULT", "f": "FULL", "n": "NOTHING"}


def schema_definitions(session: Session) -> Iterator[Definition]:
    made: dict[str, list[str]] = defaultdict(list)
    for name, text in schema_parts(session):
        made[name].append(text)
    for row in schemas(session):
        if row.nspname in made:
            name = quote_identifier(row.nspname)
            words = f"SCHEMA {name}"
            facts = {
                "owner": Fact(Phase.SCHEMAS, (naming.owner(session, words, row.nspowner),)),
                **comment_fact(words, comment_on(session, PG_NAMESPACE, row.oid), Phase.SCHEMAS),
                **privilege_facts(session, words, ObjectKind.SCHEMA, row.nspowner, row.nspacl, phase=Phase.SCHEMAS),
            }
            yield Definition("schema", name, [(Phase.SCHEMAS, text) for text in made[row.nspname]], words, facts)


def relation_definitions(session: Session) -> Iterator[Definition]:
    """In the order in which they can be made."""
    made: dict[int, list[tuple[float, str]]] = defaultdict(list)
    found = {each.oid: each for each in own_relations(session)}
    for oid, phase, text in placed_parts(session):
        if oid in found:
            made[oid].append((phase, text))
    for number, statements in made.items():
        each = found[number]
        described = Definition(_KINDS[each.kind], naming.qualified(each), statements, _words(each))
        described.facts = dict(_common_facts(session, each))
        if each.kind == "S":
            described.owner = naming.owner(session, _words(each), each.owner)
            described.facts |= _sequence_facts(session, each)
        elif each.kind in "vm":
            if each.kind == "v":
                described.facts |= _view_facts(session, each)
                described.fixed = {"columns": _columns_of_view(each)}
            else:
                described.facts |= _materialized_facts(session, each)
                described.fixed = {"definition": create_materialized_view(session, each)}
            remade = tuple(text for _, text in statements)
            for oid in needed_by(session, each):
                if oid in found:
                    described.holds[naming.qualified(found[oid])] = (f"DROP {_words(each)};", remade)
            for used in (*called_by_view(session, number), *used_by_view(session, number)):
                described.holds[used] = (f"DROP {_words(each)};", remade)
        else:
            described.facts |= _table_facts(session, each)
            described.columns = {c.name: _column(session, each, c) for c in each.columns}
            key = partition_key_definition(session, number) if each.kind == "p" else None
            described.fixed = {"partition key": key or "none"}
            if each.is_partition:
                above = naming.qualified(relation(session, parents(session, number)[0]))
                described.of_parent = (above, frozenset(_given_by_parent(session, each)))
        yield described


def placed_parts(session: Session) -> Iterator[tuple[int, float, str]]:
    """The statements that make routines and relations: the object, the place in the order of all, and the text."""
    routines = RoutineParts(session)
    first = list(routines.first())
    for place, (oid, text) in enumerate(first):
        yield oid, Phase.TYPES + 0.5 + place / len(first) / 4, text
    parts = list(relation_parts(session, routines))
    for place, (oid, text) in enumerate(parts):
        phase = Phase.SEQUENCES if text.startswith("CREATE SEQUENCE") else Phase.RELATIONS
        yield oid, phase + place / len(parts), text


def _words(found: Relation) -> str:
    return f"{WORDS[found.kind]} {naming.qualified(found)}"


# --- facts of all of them ---------------------------------------------------------------------------------------------


def _common_facts(session: Session, found: Relation) -> dict[str, Fact]:
    words = _words(found)
    facts = {}
    if not (found.kind == "S" and is_owned(session, found)):
        facts["owner"] = Fact(Phase.ATTRIBUTES, (naming.owner(session, words, found.owner),))
    facts |= comment_fact(words, comment_on(session, PG_CLASS, found.oid))
    granted = words if found.kind == "S" else f"TABLE {naming.qualified(found)}"
    facts |= privilege_facts(session, granted, KINDS[found.kind], found.owner, found.acl)
    for column in found.columns:
        name = quote_identifier(column.name)
        text = comment_on(session, PG_CLASS, found.oid, column.num)
        facts |= comment_fact(f"COLUMN {naming.qualified(found)}.{name}", text)
        facts |= privilege_facts(session, granted, ObjectKind.COLUMN, found.owner, column.acl, name)
    return facts


def _option_facts(found: Relation) -> dict[str, Fact]:
    facts = {}
    for option in found.options or ():
        name = option.partition("=")[0]
        made = f"ALTER {_words(found)} SET ({options_text([option])});"
        facts[f"option {name}"] = Fact(Phase.ATTRIBUTES, (made,), (f"ALTER {_words(found)} RESET ({name});",))
    return facts


# --- sequences and views ----------------------------------------------------------------------------------------------


def _sequence_facts(session: Session, found: Relation) -> dict[str, Fact]:
    row = one(session, pg_sequence, seqrelid=found.oid)
    assert row is not None
    options = f"AS {format_type(row.seqtypid)} {_all_options(row)}"
    facts = {"options": Fact(Phase.SEQUENCES, (f"ALTER {_words(found)} {options};",))}
    for text in sequence_owner(session, found):
        undone = f"ALTER {_words(found)} OWNED BY NONE;"
        facts["owned by"] = Fact(Phase.ATTRIBUTES, (text,), (undone,))
    return facts


def _view_facts(session: Session, found: Relation) -> dict[str, Fact]:
    made = f"CREATE OR REPLACE VIEW {naming.qualified(found)} AS\n{view_definition(session, found.oid)}"
    return {"definition": Fact(Phase.RELATIONS, (made,)), **_option_facts(found), **dict(_triggers(session, found))}


def _materialized_facts(session: Session, found: Relation) -> dict[str, Fact]:
    """Nothing changes a materialized view's query."""
    return {**_option_facts(found), **dict(_indexes(session, found)), **_settings_facts(session, found)}


def _columns_of_view(found: Relation) -> str:
    """A view's columns cannot be changed; OR REPLACE can only add some."""
    return ", ".join(f"{quote_identifier(c.name)} {format_type(c.type, c.typmod)}" for c in found.columns)


# --- tables -----------------------------------------------------------------------------------------------------------


def _table_facts(session: Session, found: Relation) -> dict[str, Fact]:
    name = naming.qualified(found)
    facts = {
        **_option_facts(found),
        **dict(_constraints(session, found)),
        **dict(_indexes(session, found)),
        **dict(_triggers(session, found)),
        **dict(_ancestry(session, found)),
    }
    if found.replident != "i":
        made = f"ALTER TABLE ONLY {name} REPLICA IDENTITY {_REPLICA_IDENTITY[found.replident]};"
        facts["replica identity"] = Fact(Phase.ATTRIBUTES, (made,))
    for is_on, words in ((found.row_security, "ROW LEVEL SECURITY"), (found.force_row_security, "FORCE ROW SECURITY")):
        on = ("ENABLE ROW" if words.startswith("ROW") else "FORCE ROW") + " LEVEL SECURITY"
        off = ("DISABLE ROW" if words.startswith("ROW") else "NO FORCE ROW") + " LEVEL SECURITY"
        if is_on:
            made = f"ALTER TABLE {name} {on};"
            facts[words.lower()] = Fact(Phase.ATTRIBUTES, (made,), (f"ALTER TABLE {name} {off};",))
    if found.persistence == "u":
        made, undone = f"ALTER TABLE {name} SET UNLOGGED;", f"ALTER TABLE {name} SET LOGGED;"
        facts["persistence"] = Fact(Phase.ATTRIBUTES, (made,), (undone,))
    return {**facts, **_settings_facts(session, found)}


def _settings_facts(session: Session, found: Relation) -> dict[str, Fact]:
    facts = {}
    for text in column_settings(session, found):
        before, _, setting = text.rpartition(" SET ")
        word, _, _ = setting.partition(" ")
        if word in ("STATISTICS", "STORAGE", "COMPRESSION"):
            facts[before + word] = Fact(Phase.ATTRIBUTES, (text,), (f"{before} SET {word} DEFAULT;",))
    return facts


def _ancestry(session: Session, found: Relation) -> Iterator[tuple[str, Fact]]:
    name = naming.qualified(found)
    for parent in parents(session, found.oid):
        above = naming.qualified(relation(session, parent))
        if found.is_partition:
            undone = f"ALTER TABLE ONLY {above} DETACH PARTITION {name};"
            made = attach(session, found)
            yield "partition", Fact(Phase.PARTITIONS, (made,), (undone,), anew=True)
        else:
            made, undone = f"ALTER TABLE {name} INHERIT {above};", f"ALTER TABLE {name} NO INHERIT {above};"
            yield f"parent {above}", Fact(Phase.KEYS, (made,), (undone,), undone_in=Phase.REMOVALS)


def _constraints(session: Session, found: Relation) -> Iterator[tuple[str, Fact]]:
    name = naming.qualified(found)
    for row in sorted(rows(session, pg_constraint, conrelid=found.oid), key=lambda r: r.conname):
        if row.contype not in "cpufx" or row.conparentid or not row.conislocal:
            continue
        constraint = quote_identifier(row.conname)
        made = add_constraint(session, ("" if found.kind == "p" or row.contype == "c" else "ONLY ") + name, row)
        undone = f"ALTER TABLE {name} DROP CONSTRAINT {constraint};"
        phase = Phase.FOREIGN_KEYS if row.contype == "f" else Phase.KEYS
        yield (
            f"constraint {constraint}",
            Fact(phase, (made,), (undone,), anew=True, is_object=True, undone_in=Phase.REMOVALS),
        )
        text = comment_on(session, PG_CONSTRAINT, row.oid)
        yield from comment_fact(f"CONSTRAINT {constraint} ON {name}", text).items()


def _triggers(session: Session, found: Relation) -> Iterator[tuple[str, Fact]]:
    """Without the copies of partitions, which come with the trigger of the partitioned table."""
    name = naming.qualified(found)
    for trigger in triggers_of(session, found.oid):
        if trigger.parent:
            continue
        word = f"TRIGGER {quote_identifier(trigger.name)} ON {name}"
        is_constraint = bool(trigger.constraint)  # CREATE OR REPLACE is not for constraint triggers
        made = f"{trigger_definition(session, trigger.oid)};"
        if not is_constraint:
            made = made.replace("CREATE TRIGGER", "CREATE OR REPLACE TRIGGER", 1)
        fact = Fact(
            Phase.TRIGGERS, (made,), (f"DROP {word};",), anew=is_constraint, is_object=True, undone_in=Phase.REMOVALS
        )
        yield f"trigger {quote_identifier(trigger.name)}", fact
        if trigger.enabled != "O":
            as_made = f"ALTER TABLE {name} ENABLE TRIGGER {quote_identifier(trigger.name)};"
            when = f"trigger {quote_identifier(trigger.name)} enabled"
            yield when, Fact(Phase.ATTRIBUTES, (enabled(name, trigger),), (as_made,))
        yield from comment_fact(word, comment_on(session, PG_TRIGGER, trigger.oid)).items()


def _given_by_parent(session: Session, found: Relation) -> Iterator[str]:
    """The statements for keys and indexes that a partition of an indexed table has anyway."""
    name = f"ONLY {naming.qualified(found)}" if found.kind == "r" else naming.qualified(found)
    for row in rows(session, pg_constraint, conrelid=found.oid):
        if row.conparentid and row.contype in "pu":
            yield add_constraint(session, name, row)
    for index in rows(session, pg_index, indrelid=found.oid):
        if one(session, pg_inherits, inhrelid=index.indexrelid) is not None:
            yield create_index(session, index.indexrelid)


def _indexes(session: Session, found: Relation) -> Iterator[tuple[str, Fact]]:
    name = naming.qualified(found)
    for index in sorted(rows(session, pg_index, indrelid=found.oid), key=lambda i: i.indexrelid):
        there = relation(session, index.indexrelid)
        short, whole = quote_identifier(there.name), naming.qualified(there)
        if index.indisreplident:
            made = f"ALTER TABLE ONLY {name} REPLICA IDENTITY USING INDEX {short};"
            yield "replica identity", Fact(Phase.ATTRIBUTES, (made,))
        if index.indisclustered:
            undone = f"ALTER TABLE {name} SET WITHOUT CLUSTER;"
            yield "cluster", Fact(Phase.ATTRIBUTES, (f"ALTER TABLE {name} CLUSTER ON {short};",), (undone,))
        yield from comment_fact(f"INDEX {whole}", comment_on(session, PG_CLASS, there.oid)).items()
        of_constraint = any(row.contype in "pux" for row in rows(session, pg_constraint, conindid=there.oid))
        if of_constraint or one(session, pg_inherits, inhrelid=there.oid) is not None:
            continue
        made = create_index(session, there.oid)
        undone = f"DROP INDEX {whole};"
        fact = Fact(Phase.KEYS, (made,), (undone,), anew=True, is_object=True, undone_in=Phase.REMOVALS)
        yield f"index {short}", fact


def _column(session: Session, table: Relation, column: Attribute) -> ColumnFacts:
    sequence = identity_sequence(session, table, column)
    row = not_nulls(session, table.oid).get(column.num)
    return ColumnFacts(
        column_definition(session, table, column),
        format_type(column.type, column.typmod) + collate_clause(session, column.type, column.collation),
        default_of(session, table, column),
        column.generated,
        column.notnull,
        ("", "") if row is None else (row.conname, " NO INHERIT" if row.connoinherit else ""),
        "" if sequence is None else column.identity,
        "" if sequence is None else identity_clause(session, column, sequence),
        "" if sequence is None else _all_options(sequence),
        not is_printed(table, column) or (table.is_partition and column.inhcount > 0),
    )


def _all_options(row: pg_sequence) -> str:
    return " ".join([*sequence_options(row), *([] if row.seqcycle else ["NO CYCLE"])])
