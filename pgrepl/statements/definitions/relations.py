"""The definitions of schemas, tables, views and sequences."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from pgrepl.catalog.facts.acl import ObjectKind
from pgrepl.catalog.facts.namespace import schemas
from pgrepl.catalog.facts.relation import Relation, relation
from pgrepl.catalog.facts.relation_parts import constraints_of, constraints_of_index, indexes, not_nulls, parents
from pgrepl.catalog.facts.triggers import trigger_by_oid, triggers_of
from pgrepl.catalog.store.store import one, rows
from pgrepl.catalog.store.system import FIRST_NORMAL_OID, PG_CLASS, PG_CONSTRAINT, PG_NAMESPACE, PG_TRIGGER
from pgrepl.catalog.store.tables import pg_class, pg_constraint, pg_depend, pg_inherits, pg_sequence
from pgrepl.expr.print.definitions import (
    constraint_definition,
    index_definition,
    options_text,
    partition_bound_text,
    partition_key_definition,
    view_definition,
)
from pgrepl.expr.print.print_routine import trigger_definition
from pgrepl.sql.keywords import quote_identifier
from pgrepl.statements.definitions import naming
from pgrepl.statements.definitions.definition import (
    Definition,
    Fact,
    Phase,
    RelationFacts,
    Stage,
    needed_by,
    statements,
)
from pgrepl.statements.definitions.naming import (
    all_options,
    column_facts,
    columns_above,
    create_sequence,
    create_table,
    default_of,
    identities,
    is_printed,
)
from pgrepl.statements.definitions.routines import called_by_view, used_by_view
from pgrepl.types.builtin import type_by_oid
from pgrepl.types.names import format_type

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session


Facts = Iterator[tuple[str, Fact]]

WORDS = {"r": "TABLE", "p": "TABLE", "v": "VIEW", "m": "MATERIALIZED VIEW", "S": "SEQUENCE"}
_REPLICA_IDENTITY = {"d": "DEFAULT", "f": "FULL", "n": "NOTHING"}
_ENABLED = {"O": "ENABLE", "A": "ENABLE ALWAYS", "R": "ENABLE REPLICA", "D": "DISABLE"}
_STORAGE = {"p": "PLAIN", "e": "EXTERNAL", "m": "MAIN", "x": "EXTENDED"}
_COMPRESSION = {"p": "pglz", "l": "lz4"}


def schema_definitions(session: Session) -> Iterator[Definition]:
    for row in schemas(session):
        if row.oid >= FIRST_NORMAL_OID:
            name = quote_identifier(row.nspname)
            words = f"SCHEMA {name}"
            facts = {
                "owner": Fact(Phase.SCHEMAS, (naming.owner(session, words, row.nspowner),)),
                **naming.comment(session, words, PG_NAMESPACE, row.oid, phase=Phase.SCHEMAS),
                **naming.privileges(session, words, ObjectKind.SCHEMA, row.nspowner, row.nspacl, phase=Phase.SCHEMAS),
            }
            made: list[tuple[float, str]] = [(Phase.SCHEMAS, f"CREATE {words};"), *statements(facts)]
            yield Definition("schema", name, made, words, facts)


def relation_facts(session: Session) -> RelationFacts:
    """The facts of tables, views and sequences; identity columns have their sequences inside."""
    relations = [
        relation(session, row.oid)
        for row in sorted(rows(session, pg_class, datid=session.database_oid), key=lambda r: r.oid)
        if row.relkind in WORDS
    ]
    return {r.oid: dict(_facts(session, r)) for r in relations if r.kind != "S" or _owner(session, r, "i") is None}


def relation_definitions(
    session: Session, facts: RelationFacts, placed: Iterable[tuple[int, float, str]]
) -> Iterator[Definition]:
    """In the order in which they can be made. `placed`: see placed_parts."""
    made: dict[int, list[tuple[float, str]]] = defaultdict(list)
    for oid, phase, text in placed:
        if oid in facts:
            made[oid].append((phase, text))
    for oid, steps in made.items():
        rel = relation(session, oid)
        words = _words(rel)
        described = Definition(WORDS[rel.kind].lower(), naming.qualified(rel), steps, words)
        described.facts = {name: fact for name, fact in facts[oid].items() if fact.made}
        if rel.kind == "S":
            described.owner = naming.owner(session, words, rel.owner)
        elif rel.kind in "vm":
            if rel.kind == "v":
                described.fixed = {"columns": _columns_of_view(rel)}
            else:
                described.fixed = {"definition": _create_materialized_view(session, rel)}
            let_go = f"DROP {words};", tuple(text for _, text in steps)
            names = [naming.qualified(relation(session, used)) for used in needed_by(session, rel) if used in facts]
            names += [*called_by_view(session, oid), *used_by_view(session, oid)]
            described.holds = dict.fromkeys(names, let_go)
        else:
            described.columns = column_facts(session, rel)
            key = partition_key_definition(session, oid) if rel.kind == "p" else None
            described.fixed = {"partition key": key or "none"}
            if rel.is_partition:
                above = naming.qualified(relation(session, parents(session, oid)[0]))
                given = (fact for fact in facts[oid].values() if fact.stage is Stage.INDEXES and not fact.made)
                described.of_parent = above, frozenset(text for fact in given for text in fact.dumped)
        yield described


def _words(rel: Relation) -> str:
    return f"{WORDS[rel.kind]} {naming.qualified(rel)}"


def _columns_of_view(rel: Relation) -> str:
    """A view's columns cannot be changed; OR REPLACE can only add some."""
    return ", ".join(f"{quote_identifier(c.name)} {format_type(c.type, c.typmod)}" for c in rel.columns)


def _owner(session: Session, sequence: Relation, how: str) -> pg_depend | None:
    """The column that a sequence belongs to; `how`: i for an identity column, else a."""
    return one(session, pg_depend, classid=PG_CLASS, objid=sequence.oid, refclassid=PG_CLASS, deptype=how)


# --- facts ------------------------------------------------------------------------------------------------------------


def _facts(session: Session, rel: Relation) -> Facts:
    """In the order in which a dump has those of a stage."""
    words = _words(rel)
    if rel.kind == "S":
        yield from _sequence(session, rel)
    elif rel.kind == "v":
        yield from _view(session, rel)
    elif rel.kind == "m":
        yield "created", _dumped(Stage.CREATE, _create_materialized_view(session, rel))
        yield from _settings(session, rel)
        if rel.populated:
            yield "rows", _dumped(Stage.ROWS, f"REFRESH {words};")
    else:
        yield from _table(session, rel)
    for option in rel.options or ():
        name = option.partition("=")[0]
        made, undone = f"ALTER {words} SET ({options_text([option])});", f"ALTER {words} RESET ({name});"
        yield f"option {name}", Fact(Phase.ATTRIBUTES, (made,), (undone,), stage=Stage.NOWHERE)
    if rel.kind in "rp":
        yield from _constraints(session, rel)
    if rel.kind in "rpm":
        yield from _indexes(session, rel)
    yield from _attributes(session, rel)
    yield from _triggers(session, rel)


def _dumped(stage: Stage, *texts: str) -> Fact:
    """What is not compared."""
    return Fact(Phase.ATTRIBUTES, (), stage=stage, dumped=texts)


def _sequence(session: Session, rel: Relation) -> Facts:
    row = one(session, pg_sequence, seqrelid=rel.oid)
    assert row is not None
    words = _words(rel)
    yield "created", _dumped(Stage.CREATE, create_sequence(rel, row))
    options = f"AS {format_type(row.seqtypid)} {all_options(row)}"
    yield "options", Fact(Phase.SEQUENCES, (f"ALTER {words} {options};",), stage=Stage.NOWHERE)
    owned = _owner(session, rel, "a")
    if owned is not None and owned.refobjsubid:
        table = relation(session, owned.refobjid)
        column = f"{naming.qualified(table)}.{quote_identifier(table.attributes[owned.refobjsubid - 1].name)}"
        made, undone = f"ALTER {words} OWNED BY {column};", f"ALTER {words} OWNED BY NONE;"
        yield "owned by", Fact(Phase.ATTRIBUTES, (made,), (undone,), stage=Stage.OWNED)


def _view(session: Session, rel: Relation) -> Facts:
    query, name = view_definition(session, rel.oid), naming.qualified(rel)
    created = f"CREATE VIEW {name}{_with_options(rel)} AS\n{query}"
    made = f"CREATE OR REPLACE VIEW {name} AS\n{query}"
    yield "definition", Fact(Phase.RELATIONS, (made,), stage=Stage.CREATE, dumped=(created,))


def _create_materialized_view(session: Session, rel: Relation) -> str:
    """Without data, which is there only when everything below has its rows."""
    query = (view_definition(session, rel.oid) or "").removesuffix(";")
    return f"CREATE {_words(rel)}{_with_options(rel)} AS\n{query}\n  WITH NO DATA;"


def _with_options(rel: Relation) -> str:
    return f" WITH ({options_text(rel.options)})" if rel.options else ""


def _attributes(session: Session, rel: Relation) -> Facts:
    """Owner, replica identity, row security, comments, privileges."""
    name, words = naming.qualified(rel), _words(rel)
    if rel.kind != "S" or _owner(session, rel, "a") is None:  # its owner changes with that of its table
        yield "owner", Fact(Phase.ATTRIBUTES, (naming.owner(session, words, rel.owner),))
    if rel.kind in "rpm" and rel.replident != "i":
        made = f"ALTER TABLE ONLY {name} REPLICA IDENTITY {_REPLICA_IDENTITY[rel.replident]};"
        stage = Stage.NOWHERE if rel.replident == "d" else Stage.ATTRIBUTES
        yield "replica identity", Fact(Phase.ATTRIBUTES, (made,), stage=stage)
    if rel.row_security:
        made, undone = (f"ALTER TABLE {name} {word} ROW LEVEL SECURITY;" for word in ("ENABLE", "DISABLE"))
        yield "row level security", Fact(Phase.ATTRIBUTES, (made,), (undone,))
    if rel.force_row_security:
        made, undone = (f"ALTER TABLE ONLY {name} {word} ROW LEVEL SECURITY;" for word in ("FORCE", "NO FORCE"))
        yield "force row security", Fact(Phase.ATTRIBUTES, (made,), (undone,))
    yield from naming.comment(session, words, PG_CLASS, rel.oid).items()
    for column in rel.columns:
        short = quote_identifier(column.name)
        of_column = f"COLUMN {name}.{short}"
        yield from naming.comment(session, of_column, PG_CLASS, rel.oid, column.num, of=f"column {short}").items()
    for row in constraints_of(session, rel.oid):
        if row.contype != "f" or not row.conparentid:  # a partition's foreign key may get another name
            short = quote_identifier(row.conname)
            on = f"CONSTRAINT {short} ON {name}"
            for key, fact in naming.comment(session, on, PG_CONSTRAINT, row.oid, of=f"constraint {short}").items():
                yield key, fact if _is_compared(row) else _dumped(Stage.ATTRIBUTES, *fact.made)
    granted, kind = (words, ObjectKind.SEQUENCE) if rel.kind == "S" else (f"TABLE {name}", ObjectKind.TABLE)
    yield from naming.privileges(session, granted, kind, rel.owner, rel.acl).items()
    for column in rel.columns:
        short = quote_identifier(column.name)
        yield from naming.privileges(session, granted, ObjectKind.COLUMN, rel.owner, column.acl, short).items()


# --- tables -----------------------------------------------------------------------------------------------------------


def _table(session: Session, rel: Relation) -> Facts:
    name = naming.qualified(rel)
    yield "created", _dumped(Stage.CREATE, create_table(session, rel, columns_above(session, rel)))
    yield from _settings(session, rel)
    yield "identity columns", _dumped(Stage.CREATE, *identities(session, rel))
    if naming.is_unlogged(session, rel):
        made, undone = (f"ALTER TABLE {name} SET {word};" for word in ("UNLOGGED", "LOGGED"))
        yield "persistence", Fact(Phase.ATTRIBUTES, (made,), (undone,), stage=Stage.NOWHERE)
    for parent in parents(session, rel.oid):
        above = naming.qualified(relation(session, parent))
        if rel.is_partition:
            attach, undone = (f"ALTER TABLE ONLY {above} {word} PARTITION {name}" for word in ("ATTACH", "DETACH"))
            made = f"{attach} {partition_bound_text(session, rel.oid)};"
            yield "partition", Fact(Phase.PARTITIONS, (made,), (f"{undone};",), anew=True, stage=Stage.PARTITIONS)
        else:
            made, undone = (f"ALTER TABLE {name} {word} {above};" for word in ("INHERIT", "NO INHERIT"))
            fact = Fact(Phase.KEYS, (made,), (undone,), undone_in=Phase.REMOVALS, stage=Stage.NOWHERE)
            yield f"parent {above}", fact


def _settings(session: Session, rel: Relation) -> Facts:
    """Settings of columns that CREATE leaves out: NOT NULL and the default of an inherited column, statistics, storage,
    compression."""
    named, above = not_nulls(session, rel.oid), columns_above(session, rel)
    for column in rel.columns:
        short = quote_identifier(column.name)
        prefix = f"ALTER TABLE ONLY {naming.qualified(rel)} ALTER COLUMN {short} SET"
        if not is_printed(rel, column):
            inherited = any(c.notnull for c in above.get(column.name, ()))
            if column.notnull and column.num not in named and not inherited:
                yield f"{prefix} NOT NULL", _dumped(Stage.CREATE, f"{prefix} NOT NULL;")
            default = default_of(session, rel, column, above)
            if default is not None and not column.generated:
                yield f"{prefix} DEFAULT", _dumped(Stage.CREATE, f"{prefix} DEFAULT {default};")
        kind = type_by_oid(column.type)
        targets = column.stattarget is not None and column.stattarget >= 0
        values = {
            "STATISTICS": str(column.stattarget) if targets else "",
            "STORAGE": _STORAGE[column.storage] if kind is not None and column.storage != kind.storage else "",
            "COMPRESSION": _COMPRESSION.get(column.compression, ""),
        }
        for word, value in values.items():
            if value:
                made, undone = (f"{prefix} {word} {setting};" for setting in (value, "DEFAULT"))
                of = f"column {short}"
                yield f"{prefix} {word}", Fact(Phase.ATTRIBUTES, (made,), (undone,), of=of, stage=Stage.CREATE)


def _constraints(session: Session, rel: Relation) -> Facts:
    """Those without an index."""
    for row in rows(session, pg_constraint, conrelid=rel.oid):
        if row.contype == "f" and not row.conparentid:
            yield _constraint(session, rel, row, Stage.FOREIGN_KEYS)
        elif row.conislocal and row.contype in "cn" and not row.convalidated:  # CREATE TABLE has no NOT VALID
            yield _constraint(session, rel, row, Stage.CHECKS)
        elif row.conislocal and row.contype == "c":
            yield _constraint(session, rel, row, Stage.NOWHERE)


def _constraint(session: Session, rel: Relation, row: pg_constraint, stage: Stage) -> tuple[str, Fact]:
    name, short = naming.qualified(rel), quote_identifier(row.conname)
    only = "" if rel.kind == "p" or row.contype in "cn" else "ONLY "
    made = f"ALTER TABLE {only}{name} ADD CONSTRAINT {short} {constraint_definition(session, row.oid)};"
    if not _is_compared(row):
        return f"constraint {short}", _dumped(stage, made)
    phase = Phase.FOREIGN_KEYS if row.contype == "f" else Phase.KEYS
    return f"constraint {short}", _object(phase, made, f"ALTER TABLE {name} DROP CONSTRAINT {short};", stage)


def _is_compared(row: pg_constraint) -> bool:
    """NOT NULL is compared with its column."""
    return row.contype != "n" and bool(row.conislocal) and not row.conparentid


def _object(phase: Phase, made: str, undone: str, stage: Stage, *, anew: bool = True, dumped: str = "") -> Fact:
    return Fact(
        phase, (made,), (undone,), anew=anew, is_object=True, undone_in=Phase.REMOVALS, stage=stage,
        dumped=(dumped,) if dumped else (),
    )  # fmt: skip


def _indexes(session: Session, rel: Relation) -> Facts:
    name = naming.qualified(rel)
    for index in indexes(session, rel.oid):
        there = relation(session, index.indexrelid)
        short, whole = quote_identifier(there.name), naming.qualified(there)
        keys = constraints_of_index(session, there.oid, rel.oid)
        made = (index_definition(session, there.oid) or "").replace(" ON ONLY ", " ON ", 1) + ";"
        if keys:
            is_called, fact = _constraint(session, rel, keys[0], Stage.INDEXES)
        elif one(session, pg_inherits, inhrelid=there.oid) is not None:  # comes with that of the partitioned table
            is_called, fact = f"index {short}", _dumped(Stage.INDEXES, made)
        else:
            is_called, fact = f"index {short}", _object(Phase.KEYS, made, f"DROP INDEX {whole};", Stage.INDEXES)
        yield is_called, fact
        if index.indisreplident:
            made = f"ALTER TABLE ONLY {name} REPLICA IDENTITY USING INDEX {short};"
            yield "replica identity", Fact(Phase.ATTRIBUTES, (made,), stage=Stage.INDEXES)
        if index.indisclustered:
            made, undone = f"ALTER TABLE {name} CLUSTER ON {short};", f"ALTER TABLE {name} SET WITHOUT CLUSTER;"
            yield "cluster", Fact(Phase.ATTRIBUTES, (made,), (undone,), stage=Stage.INDEXES)
        text = naming.comment(session, f"INDEX {whole}", PG_CLASS, there.oid, of=is_called, stage=Stage.INDEXES)
        yield from text.items()


def _triggers(session: Session, rel: Relation) -> Facts:
    """The copies of a partition come with the trigger of the partitioned table."""
    name, at = naming.qualified(rel), Stage.TRIGGERS
    for trigger in triggers_of(session, rel.oid):
        short = quote_identifier(trigger.name)
        word, is_called = f"TRIGGER {short} ON {name}", f"trigger {short}"
        enabled = f"ALTER TABLE {name} {_ENABLED[trigger.enabled]} TRIGGER {short};"
        parent = trigger_by_oid(session, trigger.parent) if trigger.parent else None
        if parent is not None:
            if trigger.enabled != parent.enabled:
                yield f"{is_called} enabled", _dumped(at, enabled)
            continue
        created = f"{trigger_definition(session, trigger.oid)};"
        again = bool(trigger.constraint)  # CREATE OR REPLACE is not for constraint triggers
        made = created if again else created.replace("CREATE TRIGGER", "CREATE OR REPLACE TRIGGER", 1)
        yield is_called, _object(Phase.TRIGGERS, made, f"DROP {word};", at, anew=again, dumped=created)
        if trigger.enabled != "O":
            as_made = f"ALTER TABLE {name} ENABLE TRIGGER {short};"
            yield f"{is_called} enabled", Fact(Phase.ATTRIBUTES, (enabled,), (as_made,), of=is_called, stage=at)
        yield from naming.comment(session, word, PG_TRIGGER, trigger.oid, of=is_called, stage=at).items()
