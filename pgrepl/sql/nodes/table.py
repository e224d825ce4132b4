"""CREATE TABLE, ALTER TABLE, indexes, views, sequences, types and domains."""

from __future__ import annotations

from enum import Enum

from pgrepl.ground.frozen import frozen
from pgrepl.sql.nodes.expr import Expr, Node, NullsOrder, RangeVar, SortDir, Statement, TypeName
from pgrepl.sql.nodes.select import SelectStmt
from pgrepl.sql.nodes.utility import DefElem, ObjectType, RoleSpec


class ConstrType(Enum):
    NULL = "null"
    NOTNULL = "not null"
    DEFAULT = "default"
    IDENTITY = "identity"
    GENERATED = "generated"
    CHECK = "check"
    PRIMARY = "primary key"
    UNIQUE = "unique"
    EXCLUSION = "exclude"
    FOREIGN = "foreign key"
    # Words behind a column's constraint, as they stand there (the value is what messages about them say). They are
    # joined to the constraint before them, or refused, by pgrepl.sql.location.transform_constraint_attrs.
    ATTR_DEFERRABLE = "DEFERRABLE"
    ATTR_NOT_DEFERRABLE = "NOT DEFERRABLE"
    ATTR_DEFERRED = "INITIALLY DEFERRED"
    ATTR_IMMEDIATE = "INITIALLY IMMEDIATE"
    ATTR_ENFORCED = "ENFORCED"
    ATTR_NOT_ENFORCED = "NOT ENFORCED"


@frozen
class Constraint(Node):
    kind: ConstrType
    name: str | None = None
    expr: Expr | None = None  # CHECK, DEFAULT, GENERATED
    keys: tuple[str, ...] = ()  # PRIMARY, UNIQUE; NOT NULL as a table constraint
    without_overlaps: bool = False
    including: tuple[str, ...] = ()
    nulls_not_distinct: bool = False
    generated_when: str | None = None  # a: ALWAYS, d: BY DEFAULT
    generated_kind: str = ""  # s: STORED, v: VIRTUAL; empty: neither was said
    sequence_options: tuple[DefElem, ...] = ()
    using_index: str | None = None
    index_options: tuple[DefElem, ...] = ()
    tablespace: str | None = None
    pk_table: RangeVar | None = None  # FOREIGN
    fk_columns: tuple[str, ...] = ()
    pk_columns: tuple[str, ...] = ()
    fk_period: bool = False  # the last of fk_columns is a PERIOD
    pk_period: bool = False
    match: str = "s"  # f: FULL, p: PARTIAL, s: SIMPLE
    on_update: str = "a"  # a: NO ACTION, r: RESTRICT, c: CASCADE, n: SET NULL, d: SET DEFAULT
    on_delete: str = "a"
    delete_set_columns: tuple[str, ...] = ()
    deferrable: bool = False
    initially_deferred: bool = False
    skip_validation: bool = False  # NOT VALID
    no_inherit: bool = False
    enforced: bool = True
    attributes: frozenset[str] = frozenset()  # ALTER CONSTRAINT: what was written
    newer: int = -1  # the place of the first word that PostgreSQL 17 does not expect
    location: int = -1


@frozen
class ColumnDef(Node):
    name: str
    type_name: TypeName | None  # None in a typed table or partition: column options only
    collation: tuple[str, ...] = ()
    collation_location: int = -1
    constraints: tuple[Constraint, ...] = ()
    storage: str | None = None
    compression: str | None = None
    location: int = -1


@frozen
class TableLikeClause(Node):
    relation: RangeVar
    options: frozenset[str] = (
        frozenset()
    )  # comments, compression, constraints, defaults, generated, identity, indexes, statistics, storage


@frozen
class PartitionElem(Node):
    name: str | None
    expr: Expr | None
    collation: tuple[str, ...] = ()
    opclass: tuple[str, ...] = ()
    location: int = -1


@frozen
class PartitionSpec(Node):
    strategy: str  # list, range, hash
    params: tuple[PartitionElem, ...]
    location: int = -1


@frozen
class PartitionBoundSpec(Node):
    """strategy l, r, h or d (DEFAULT). MINVALUE and MAXVALUE arrive as ColumnRef, as in PostgreSQL."""

    strategy: str
    modulus: int = 0
    remainder: int = 0
    list_values: tuple[Expr, ...] = ()
    lower: tuple[Expr, ...] = ()
    upper: tuple[Expr, ...] = ()
    location: int = -1


@frozen
class CreateStmt(Statement):
    relation: RangeVar
    elements: tuple[ColumnDef | Constraint | TableLikeClause, ...] = ()
    inherits: tuple[RangeVar, ...] = ()
    partition_of: RangeVar | None = None
    bound: PartitionBoundSpec | None = None
    partition_by: PartitionSpec | None = None
    of_type: TypeName | None = None
    options: tuple[DefElem, ...] = ()
    on_commit: str | None = None  # DROP, DELETE ROWS, PRESERVE ROWS
    tablespace: str | None = None
    access_method: str | None = None
    if_not_exists: bool = False


@frozen
class CreateTableAsStmt(Statement):
    relation: RangeVar
    columns: tuple[str, ...]
    query: Statement
    with_data: bool = True
    if_not_exists: bool = False
    kind: ObjectType = ObjectType.TABLE
    options: tuple[DefElem, ...] = ()
    on_commit: str | None = None  # DROP, DELETE ROWS, PRESERVE ROWS
    tablespace: str | None = None
    access_method: str | None = None


@frozen
class RefreshMatViewStmt(Statement):
    relation: RangeVar
    concurrently: bool = False
    with_data: bool = True


class AlterTableKind(Enum):
    ADD_COLUMN = "ADD COLUMN"
    DROP_COLUMN = "DROP COLUMN"
    ALTER_TYPE = "ALTER COLUMN ... SET DATA TYPE"
    SET_DEFAULT = "ALTER COLUMN ... SET DEFAULT"  # expr, or None for DROP DEFAULT
    SET_NOT_NULL = "ALTER COLUMN ... SET NOT NULL"
    DROP_NOT_NULL = "ALTER COLUMN ... DROP NOT NULL"
    SET_EXPRESSION = "ALTER COLUMN ... SET EXPRESSION"
    DROP_EXPRESSION = "ALTER COLUMN ... DROP EXPRESSION"
    ADD_IDENTITY = "ALTER COLUMN ... ADD IDENTITY"
    SET_IDENTITY = "ALTER COLUMN ... SET"
    DROP_IDENTITY = "ALTER COLUMN ... DROP IDENTITY"
    SET_STATISTICS = "ALTER COLUMN ... SET STATISTICS"
    SET_STORAGE = "ALTER COLUMN ... SET STORAGE"
    SET_COMPRESSION = "ALTER COLUMN ... SET COMPRESSION"
    SET_OPTIONS = "ALTER COLUMN ... SET OPTIONS"  # SET (n_distinct = 5); PostgreSQL calls it ALTER COLUMN ... SET, too
    RESET_OPTIONS = "ALTER COLUMN ... RESET"
    ADD_CONSTRAINT = "ADD CONSTRAINT"
    ALTER_CONSTRAINT = "ALTER CONSTRAINT"
    VALIDATE_CONSTRAINT = "VALIDATE CONSTRAINT"
    DROP_CONSTRAINT = "DROP CONSTRAINT"
    REPLICA_IDENTITY = "REPLICA IDENTITY"
    ATTACH_PARTITION = "ATTACH PARTITION"
    DETACH_PARTITION = "DETACH PARTITION"
    DETACH_FINALIZE = "DETACH PARTITION ... FINALIZE"
    INHERIT = "INHERIT"
    NO_INHERIT = "NO INHERIT"
    OWNER = "OWNER TO"
    ENABLE_RLS = "ENABLE ROW SECURITY"
    DISABLE_RLS = "DISABLE ROW SECURITY"
    FORCE_RLS = "FORCE ROW SECURITY"
    NO_FORCE_RLS = "NO FORCE ROW SECURITY"
    SET_RELOPTIONS = "SET"
    RESET_RELOPTIONS = "RESET"
    DROP_OIDS = "SET WITHOUT OIDS"  # does nothing: no table has OIDs
    CLUSTER_ON = "CLUSTER ON"
    DROP_CLUSTER = "SET WITHOUT CLUSTER"
    SET_LOGGED = "SET LOGGED"
    SET_UNLOGGED = "SET UNLOGGED"
    SET_ACCESS_METHOD = "SET ACCESS METHOD"  # name None: DEFAULT
    SET_TABLESPACE = "SET TABLESPACE"
    ENABLE_TRIGGER = "ENABLE TRIGGER"
    ENABLE_ALWAYS_TRIGGER = "ENABLE ALWAYS TRIGGER"
    ENABLE_REPLICA_TRIGGER = "ENABLE REPLICA TRIGGER"
    ENABLE_TRIGGER_ALL = "ENABLE TRIGGER ALL"
    ENABLE_TRIGGER_USER = "ENABLE TRIGGER USER"
    DISABLE_TRIGGER = "DISABLE TRIGGER"
    DISABLE_TRIGGER_ALL = "DISABLE TRIGGER ALL"
    DISABLE_TRIGGER_USER = "DISABLE TRIGGER USER"
    UNSUPPORTED = "unsupported"  # name says what: ENABLE RULE, OF …


@frozen
class AlterTableCmd(Node):
    kind: AlterTableKind
    name: str | None = None  # column, constraint, index (REPLICA IDENTITY USING INDEX, CLUSTER ON), trigger …
    column: ColumnDef | None = None  # ADD COLUMN; ALTER_TYPE (type, collation)
    expr: Expr | None = None  # default; USING of ALTER_TYPE
    constraint: Constraint | None = None
    identity: str | None = None  # REPLICA IDENTITY: n, d, f, i
    relation: RangeVar | None = None  # partition, parent
    bound: PartitionBoundSpec | None = None
    new_owner: RoleSpec | None = None
    options: tuple[DefElem, ...] = ()
    value: int | str | None = None  # SET STATISTICS (None: DEFAULT), SET STORAGE, SET COMPRESSION
    number: int | None = None  # ALTER COLUMN 2 SET STATISTICS: the column of an index by its number
    missing_ok: bool = False  # IF EXISTS (IF NOT EXISTS for ADD COLUMN)
    cascade: bool = False
    concurrently: bool = False
    location: int = -1


@frozen
class AlterTableStmt(Statement):
    kind: ObjectType  # TABLE, INDEX, VIEW, SEQUENCE …
    relation: RangeVar
    commands: tuple[AlterTableCmd, ...]
    missing_ok: bool = False


@frozen
class KeyAction(Node):
    action: str = "a"
    columns: tuple[str, ...] = ()


@frozen
class KeyActions(Node):
    """ON UPDATE and ON DELETE, which become fields of the Constraint."""

    update: KeyAction = KeyAction()
    delete: KeyAction = KeyAction()


@frozen
class IndexElem(Node):
    name: str | None
    expr: Expr | None
    collation: tuple[str, ...] = ()
    opclass: tuple[str, ...] = ()
    opclass_options: tuple[DefElem, ...] = ()
    dir: SortDir = SortDir.DEFAULT
    nulls: NullsOrder = NullsOrder.DEFAULT
    location: int = -1


@frozen
class IndexStmt(Statement):
    name: str | None
    relation: RangeVar
    elements: tuple[IndexElem, ...]
    unique: bool = False
    method: str = "btree"
    including: tuple[IndexElem, ...] = ()
    nulls_not_distinct: bool = False
    where: Expr | None = None
    options: tuple[DefElem, ...] = ()
    tablespace: str | None = None
    concurrently: bool = False
    if_not_exists: bool = False


@frozen
class ViewStmt(Statement):
    relation: RangeVar
    columns: tuple[str, ...]
    query: SelectStmt
    replace: bool = False
    recursive: bool = False
    options: tuple[DefElem, ...] = ()
    check_option: str | None = None  # LOCAL, CASCADED


@frozen
class CreateSeqStmt(Statement):
    relation: RangeVar
    options: tuple[DefElem, ...] = ()  # as, increment, minvalue, maxvalue, start, cache, cycle, owned_by, restart …
    if_not_exists: bool = False


@frozen
class AlterSeqStmt(Statement):
    relation: RangeVar
    options: tuple[DefElem, ...] = ()
    missing_ok: bool = False


# --- type -------------------------------------------------------------------------------------------------------------


@frozen
class CreateEnumStmt(Statement):
    name: RangeVar
    labels: tuple[str, ...]


@frozen
class CompositeTypeStmt(Statement):
    relation: RangeVar
    columns: tuple[ColumnDef, ...]


@frozen
class CreateRangeStmt(Statement):
    name: RangeVar
    options: tuple[DefElem, ...]


@frozen
class AlterEnumStmt(Statement):
    """ADD VALUE label [BEFORE | AFTER neighbor]; with `old_label`, RENAME VALUE."""

    name: tuple[str, ...]
    label: str
    old_label: str | None = None
    neighbor: str | None = None
    after: bool = True
    if_not_exists: bool = False


@frozen
class CreateDomainStmt(Statement):
    name: RangeVar
    type_name: TypeName
    collation: tuple[str, ...] = ()
    collation_location: int = -1
    constraints: tuple[Constraint, ...] = ()


class AlterDomainKind(Enum):
    SET_DEFAULT = "SET DEFAULT"  # expr, or None for DROP DEFAULT
    DROP_NOT_NULL = "DROP NOT NULL"
    SET_NOT_NULL = "SET NOT NULL"
    ADD_CONSTRAINT = "ADD CONSTRAINT"
    DROP_CONSTRAINT = "DROP CONSTRAINT"
    VALIDATE_CONSTRAINT = "VALIDATE CONSTRAINT"


@frozen
class AlterDomainStmt(Statement):
    name: tuple[str, ...]
    kind: AlterDomainKind
    expr: Expr | None = None
    constraint: Constraint | None = None
    constraint_name: str | None = None
    missing_ok: bool = False
    cascade: bool = False


@frozen
class DropTypeStmt(Statement):
    """DROP TYPE or DROP DOMAIN."""

    kind: ObjectType
    types: tuple[TypeName, ...]
    missing_ok: bool = False
    cascade: bool = False
