"""CREATE SEQUENCE and ALTER SEQUENCE; the sequences of serial and identity columns, and their options."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pgrepl.catalog.facts.acl import check_relation_owner
from pgrepl.catalog.facts.depend import Dependency, forget_dependencies, record_dependency
from pgrepl.catalog.facts.namespace import schema_for_creation
from pgrepl.catalog.facts.relation import Relation, oid_in_schema, relation
from pgrepl.catalog.facts.relation_parts import not_supported, open_table
from pgrepl.catalog.facts.sequences import created, new_relfilenumber, owner_column, sequence_row
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.store import store
from pgrepl.catalog.store.system import PG_CLASS, ObjectAddress
from pgrepl.catalog.store.tables import pg_sequence
from pgrepl.expr.analyse.casts import type_of_name
from pgrepl.ground.errors import PgError
from pgrepl.query.result import Result
from pgrepl.sql.location import conflicting, get_int64, get_qualified_name, get_type_name
from pgrepl.sql.nodes import AlterSeqStmt, CreateSeqStmt, DefElem, RangeVar
from pgrepl.statements.table.columns import SYSTEM_COLUMNS
from pgrepl.statements.table.constraints import ColumnSequence
from pgrepl.statements.table.heap import create_relation, simple_column
from pgrepl.statements.table.names import creation_schema
from pgrepl.statements.table.relations import named_relation, named_relation_or_none, refuse_catalog
from pgrepl.types.names import format_type
from pgrepl.types.oids import BOOL, INT2, INT4, INT8

LIMITS = {INT2: (-(2**15), 2**15 - 1), INT4: (-(2**31), 2**31 - 1), INT8: (-(2**63), 2**63 - 1)}
_KNOWN = ("as", "increment", "start", "restart", "maxvalue", "minvalue", "cache", "cycle", "owned_by")


@dataclass(frozen=True, slots=True)
class Sequence:
    """A row of pg_sequence, with the sequence's current value."""

    type: int = INT8
    start: int = 0
    increment: int = 1
    maximum: int = 0
    minimum: int = 0
    cache: int = 1
    cycle: bool = False
    last_value: int = 0
    is_called: bool = False


def sequence_options(
    session: Session, options: tuple[DefElem, ...], old: Sequence | None = None, *, identity: bool = False
) -> tuple[Sequence, tuple[str, ...]]:
    """The sequence the options describe (`old` changed by them, in ALTER) and the OWNED BY name, as init_params
    does."""
    given: dict[str, DefElem] = {}
    for option in options:
        if option.name == "sequence_name":
            raise PgError("42601", "invalid sequence option SEQUENCE NAME", location=option.location)
        if option.name not in _KNOWN:
            raise PgError("XX000", f'option "{option.name}" not recognized')
        if option.name in given:
            conflicting(option)
        given[option.name] = option
    seq = old or Sequence()
    seq, whole_maximum, whole_minimum = _with_type(session, seq, old, given.get("as"), identity)
    if "increment" in given:
        seq = replace(seq, increment=get_int64(given["increment"]))
        if seq.increment == 0:
            raise PgError("22023", "INCREMENT must not be zero")
    if "cycle" in given:
        seq = replace(seq, cycle=bool(given["cycle"].value))
    seq = _with_bounds(seq, old, given, whole_maximum, whole_minimum)
    seq = _with_values(seq, old, given)
    if "cache" in given:
        seq = replace(seq, cache=get_int64(given["cache"]))
        if seq.cache <= 0:
            raise PgError("22023", f"CACHE ({seq.cache}) must be greater than zero")
    owned_by = get_qualified_name(given["owned_by"]) if "owned_by" in given else ()
    return seq, owned_by


def _with_type(
    session: Session, seq: Sequence, old: Sequence | None, option: DefElem | None, identity: bool
) -> tuple[Sequence, bool, bool]:
    """AS type. A bound at the limit of the old type moves to that of the new type."""
    if option is None:
        return seq, False, False
    type_, _ = type_of_name(session, get_type_name(option))
    if type_ not in LIMITS:
        what = "identity column type" if identity else "sequence type"
        raise PgError("22023", f"{what} must be smallint, integer, or bigint")
    low, high = LIMITS[seq.type]
    return (replace(seq, type=type_), old is not None and seq.maximum == high, old is not None and seq.minimum == low)


def _with_bounds(
    seq: Sequence, old: Sequence | None, given: dict[str, DefElem], whole_maximum: bool, whole_minimum: bool
) -> Sequence:
    low, high = LIMITS[seq.type]
    maximum, minimum = given.get("maxvalue"), given.get("minvalue")
    if maximum is not None and maximum.value is not None:
        seq = replace(seq, maximum=get_int64(maximum))
    elif old is None or maximum is not None or whole_maximum:
        seq = replace(seq, maximum=high if seq.increment > 0 or whole_maximum else -1)
    if not low <= seq.maximum <= high:
        raise PgError(
            "22023", f"MAXVALUE ({seq.maximum}) is out of range for sequence data type {format_type(seq.type)}"
        )
    if minimum is not None and minimum.value is not None:
        seq = replace(seq, minimum=get_int64(minimum))
    elif old is None or minimum is not None or whole_minimum:
        seq = replace(seq, minimum=low if seq.increment < 0 or whole_minimum else 1)
    if not low <= seq.minimum <= high:
        raise PgError(
            "22023", f"MINVALUE ({seq.minimum}) is out of range for sequence data type {format_type(seq.type)}"
        )
    if seq.minimum >= seq.maximum:
        raise PgError("22023", f"MINVALUE ({seq.minimum}) must be less than MAXVALUE ({seq.maximum})")
    return seq


def _with_values(seq: Sequence, old: Sequence | None, given: dict[str, DefElem]) -> Sequence:
    """START and RESTART, within the bounds."""
    if "start" in given:
        seq = replace(seq, start=get_int64(given["start"]))
    elif old is None:
        seq = replace(seq, start=seq.minimum if seq.increment > 0 else seq.maximum)
    _within("START", seq.start, seq)
    if "restart" in given:
        restart = given["restart"]
        seq = replace(seq, last_value=seq.start if restart.value is None else get_int64(restart), is_called=False)
    elif old is None:
        seq = replace(seq, last_value=seq.start, is_called=False)
    _within("RESTART", seq.last_value, seq)
    return seq


def _within(word: str, value: int, seq: Sequence) -> None:
    if value < seq.minimum:
        raise PgError("22023", f"{word} value ({value}) cannot be less than MINVALUE ({seq.minimum})")
    if value > seq.maximum:
        raise PgError("22023", f"{word} value ({value}) cannot be greater than MAXVALUE ({seq.maximum})")


def as_options(seq: Sequence) -> tuple[DefElem, ...]:
    """The options that make a sequence like this one, for LIKE … INCLUDING IDENTITY (PostgreSQL's sequence_options)."""
    return (
        DefElem("cache", seq.cache),
        DefElem("cycle", seq.cycle),
        DefElem("increment", seq.increment),
        DefElem("maxvalue", seq.maximum),
        DefElem("minvalue", seq.minimum),
        DefElem("start", seq.start),
    )


# --- sequence ---------------------------------------------------------------------------------------------------------


def create_sequence(stmt: CreateSeqStmt, session: Session) -> Result:
    name = replace(stmt.relation, location=-1)
    if stmt.if_not_exists:
        namespace, _ = creation_schema(session, name)
        if oid_in_schema(session, namespace, name.name) is not None:
            session.notice("NOTICE", f'relation "{name.name}" already exists, skipping', sqlstate="42P07")
            return Result("CREATE SEQUENCE")
    options, owned_by = sequence_options(session, stmt.options)
    namespace, persistence = creation_schema(session, name)
    oid = _store(session, name.name, namespace, options, persistence, 0)
    if owned_by:
        _set_owner_column(session, relation(session, oid), owned_by, Dependency.AUTO)
    return Result("CREATE SEQUENCE")


def _store(session: Session, name: str, namespace: int, options: Sequence, persistence: str, owner: int) -> int:
    columns = [
        simple_column("last_value", INT8, not_null=True),
        simple_column("log_cnt", INT8, not_null=True),
        simple_column("is_called", BOOL, not_null=True),
    ]
    for column in columns:
        column.storage = "p"
    oid = create_relation(session, name, namespace, "S", columns, persistence=persistence, owner=owner)
    store.insert(session, pg_sequence, seqrelid=oid, **_values(options))
    created(session, oid)
    return oid


def _values(options: Sequence) -> dict[str, object]:
    return {
        "seqtypid": options.type,
        "seqstart": options.start,
        "seqincrement": options.increment,
        "seqmax": options.maximum,
        "seqmin": options.minimum,
        "seqcache": options.cache,
        "seqcycle": options.cycle,
        "last_value": options.last_value,
        "is_called": options.is_called,
    }


def sequence_of(session: Session, oid: int) -> Sequence:
    row = sequence_row(session, oid)
    return Sequence(
        row.seqtypid,
        row.seqstart,
        row.seqincrement,
        row.seqmax,
        row.seqmin,
        row.seqcache,
        bool(row.seqcycle),
        row.last_value,
        bool(row.is_called),
    )


def alter_sequence(stmt: AlterSeqStmt, session: Session) -> Result:
    rel = named_relation_or_none(session, stmt.relation)
    if rel is None:
        if not stmt.missing_ok:
            named_relation(session, stmt.relation)
        session.notice("NOTICE", f'relation "{stmt.relation.name}" does not exist, skipping')
        return Result("ALTER SEQUENCE")
    check_relation_owner(session, rel)
    refuse_catalog(rel, stmt.relation.name)
    if rel.kind != "S":
        raise PgError("42809", f'cannot open relation "{rel.name}"', detail=not_supported(rel.kind))
    change_sequence(session, rel, stmt, identity=False)
    return Result("ALTER SEQUENCE")


def change_sequence(session: Session, rel: Relation, stmt: AlterSeqStmt, *, identity: bool) -> None:
    """ALTER SEQUENCE with options (AlterSequence)."""
    options, owned_by = sequence_options(session, stmt.options, sequence_of(session, rel.oid), identity=identity)
    if owned_by:
        _set_owner_column(session, rel, owned_by, Dependency.INTERNAL if identity else Dependency.AUTO)
    if any(option.name != "owned_by" for option in stmt.options):
        new_relfilenumber(session, rel.oid)
        store.update(session, pg_sequence, {"seqrelid": rel.oid}, **_values(options))


# --- owned by a column --------------------------------------------------------------------------------------------


def _set_owner_column(session: Session, rel: Relation, owned_by: tuple[str, ...], kind: Dependency) -> None:
    """OWNED BY table.column or NONE, as process_owned_by does."""
    target: ObjectAddress | None = None
    if len(owned_by) == 1:
        if owned_by[0] != "none":
            raise PgError("42601", "invalid OWNED BY option", hint="Specify OWNED BY table.column or OWNED BY NONE.")
    else:
        *parts, column = owned_by
        catalog, schema, name = (None, None, *parts)[-3:]
        table = open_table(session, RangeVar(str(name), schema, catalog))
        target = _owner_target(rel, table, column)
    if kind is Dependency.AUTO:
        owner = owner_column(session, rel.oid, Dependency.INTERNAL)
        if owner is not None:
            raise PgError(
                "0A000",
                "cannot change ownership of identity sequence",
                detail=f'Sequence "{rel.name}" is linked to table "{relation(session, owner[0]).name}".',
            )
    self = ObjectAddress(PG_CLASS, rel.oid)
    forget_dependencies(session, self, refclassid=PG_CLASS, kind=kind)
    if target is not None:
        record_dependency(session, self, target, kind)


def _owner_target(rel: Relation, table: Relation, column: str) -> ObjectAddress:
    if table.kind not in ("r", "f", "v", "p"):
        raise PgError("42809", f'sequence cannot be owned by relation "{table.name}"', detail=not_supported(table.kind))
    if rel.owner != table.owner:
        raise PgError("55000", "sequence must have same owner as table it is linked to")
    if rel.namespace != table.namespace:
        raise PgError("55000", "sequence must be in same schema as table it is linked to")
    attribute = table.attribute(column)
    attnum = attribute.num if attribute is not None else SYSTEM_COLUMNS.get(column)
    if attnum is None:
        raise PgError("42703", f'column "{column}" of relation "{table.name}" does not exist')
    return ObjectAddress(PG_CLASS, table.oid, attnum)


# --- serial and identity columns ----------------------------------------------------------------------------------


def create_column_sequence(session: Session, plan: ColumnSequence) -> None:
    """Create the sequence of a new serial or identity column, before its table exists."""
    options, owned_by = sequence_options(session, plan.options, identity=plan.identity)
    namespace = schema_for_creation(session, plan.schema)
    plan.oid = _store(session, plan.name, namespace, options, plan.persistence, plan.owner)
    if owned_by:
        kind = Dependency.INTERNAL if plan.identity else Dependency.AUTO
        _set_owner_column(session, relation(session, plan.oid), owned_by, kind)


def own_sequence(session: Session, plan: ColumnSequence, table: Relation) -> None:
    """Make the sequence belong to its column, once that exists."""
    rel = relation(session, plan.oid)
    kind = Dependency.INTERNAL if plan.identity else Dependency.AUTO
    target = _owner_target(rel, table, plan.column)
    record_dependency(session, ObjectAddress(PG_CLASS, rel.oid), target, kind)
