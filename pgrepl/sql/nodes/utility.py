"""Statements about any kind of object, schemas, databases, settings, transactions, operators and collations."""

from __future__ import annotations

from enum import Enum

from pgrepl.ground.frozen import frozen
from pgrepl.sql.nodes.expr import Node, RangeVar, Statement, TypeName


@frozen
class DefElem(Node):
    """One option: `name [= value]`. The value is a string, an integer, a float's text in FloatText, a bool, a TypeName
    (a bare word that is not a keyword), a tuple of names, an expression, or None."""

    name: str
    value: object = None
    location: int = -1
    namespace: str | None = None  # toast.autovacuum_enabled


@frozen
class FloatText(Node):
    text: str


class ObjectType(Enum):
    """The value is the word PostgreSQL uses in messages."""

    AGGREGATE = "aggregate"
    ATTRIBUTE = "attribute"
    CAST = "cast"
    COLLATION = "collation"
    COLUMN = "column"
    CONVERSION = "conversion"
    DATABASE = "database"
    DOMAIN = "domain"
    DOMCONSTRAINT = "domain constraint"
    EVENT_TRIGGER = "event trigger"
    EXTENSION = "extension"
    FDW = "foreign-data wrapper"
    FOREIGN_SERVER = "foreign server"
    FOREIGN_TABLE = "foreign table"
    FUNCTION = "function"
    INDEX = "index"
    LANGUAGE = "language"
    LARGEOBJECT = "large object"
    MATVIEW = "materialized view"
    OPERATOR = "operator"
    PARAMETER = "parameter"
    POLICY = "policy"
    PROCEDURE = "procedure"
    PUBLICATION = "publication"
    ROLE = "role"
    ROUTINE = "routine"
    RULE = "rule"
    SCHEMA = "schema"
    SEQUENCE = "sequence"
    STATISTIC = "statistics object"
    SUBSCRIPTION = "subscription"
    TABLE = "table"
    TABCONSTRAINT = "constraint"
    TABLESPACE = "tablespace"
    TRIGGER = "trigger"
    TYPE = "type"
    VIEW = "view"


@frozen
class DropStmt(Statement):
    """DROP TABLE | VIEW | INDEX | SEQUENCE | SCHEMA | PUBLICATION …; a name is a tuple of its parts, of a trigger the
    relation's and its own."""

    kind: ObjectType
    names: tuple[tuple[str, ...], ...]
    missing_ok: bool = False
    cascade: bool = False
    concurrently: bool = False


@frozen
class RenameStmt(Statement):
    """ALTER … RENAME: of the object; or of a part of `relation`: a column (`kind` COLUMN) or constraint
    (TABCONSTRAINT), a trigger, an attribute of a composite type, a constraint of a domain (DOMCONSTRAINT)."""

    kind: ObjectType
    new_name: str
    relation: RangeVar | None = None
    relation_kind: ObjectType = ObjectType.TABLE
    name: str = ""  # of a publication, subscription, role, schema, database, column, constraint, trigger
    missing_ok: bool = False
    cascade: bool = False


@frozen
class RoleSpec(Node):
    """A role by name, or by a word such as CURRENT_USER."""

    name: str | None = None
    word: str | None = None  # current_role, current_user, session_user, public
    location: int = -1


@frozen
class AlterOwnerStmt(Statement):
    """ALTER PUBLICATION | SUBSCRIPTION | SCHEMA | DATABASE … OWNER TO (of tables: AlterTableStmt)."""

    kind: ObjectType
    name: tuple[str, ...]
    new_owner: RoleSpec


@frozen
class AlterObjectSchemaStmt(Statement):
    """ALTER TABLE | VIEW | SEQUENCE … SET SCHEMA."""

    kind: ObjectType
    relation: RangeVar
    new_schema: str
    missing_ok: bool = False


@frozen
class CommentStmt(Statement):
    kind: ObjectType
    name: tuple[str, ...]  # for COLUMN, TABCONSTRAINT and TRIGGER the relation's parts, then its own
    comment: str | None
    location: int = -1
    named: Node | None = None  # of FUNCTION, PROCEDURE, ROUTINE a RoutineName, of TYPE and DOMAIN the TypeName


@frozen
class CreateSchemaStmt(Statement):
    name: str | None
    authorization: RoleSpec | None = None
    if_not_exists: bool = False
    elements: tuple[Statement, ...] = ()


@frozen
class CreateDatabaseStmt(Statement):
    name: str
    options: tuple[DefElem, ...] = ()


@frozen
class AlterDatabaseStmt(Statement):
    """ALTER DATABASE d WITH options; ALTER DATABASE d SET … carries `setting`."""

    name: str
    options: tuple[DefElem, ...] = ()
    setting: VariableSetStmt | None = None


@frozen
class DropDatabaseStmt(Statement):
    name: str
    missing_ok: bool = False
    force: bool = False


class VariableSetKind(Enum):
    VALUE = "value"
    DEFAULT = "default"
    CURRENT = "current"
    MULTI = "multi"  # SET TRANSACTION …, SET SESSION CHARACTERISTICS: args are DefElems
    RESET = "reset"
    RESET_ALL = "reset all"


@frozen
class VariableSetStmt(Statement):
    """SET, RESET, SET TIME ZONE, SET ROLE (name "role"), SET SESSION AUTHORIZATION ("session_authorization")."""

    kind: VariableSetKind
    name: str | None
    args: tuple[object, ...] = ()  # AConst, str words, TypeCast for INTERVAL, or DefElem for MULTI
    local: bool = False


@frozen
class ConstraintsSetStmt(Statement):
    """SET CONSTRAINTS; `constraints` None: ALL."""

    constraints: tuple[RangeVar, ...] | None
    deferred: bool


@frozen
class AlterSystemStmt(Statement):
    """ALTER SYSTEM SET | RESET, which takes effect in new sessions and at pg_reload_conf()."""

    setting: VariableSetStmt


@frozen
class VariableShowStmt(Statement):
    name: str  # "all" for SHOW ALL


class TransactionKind(Enum):
    BEGIN = "BEGIN"
    START = "START TRANSACTION"
    COMMIT = "COMMIT"
    ROLLBACK = "ROLLBACK"
    SAVEPOINT = "SAVEPOINT"
    RELEASE = "RELEASE"
    ROLLBACK_TO = "ROLLBACK TO"
    PREPARE = "PREPARE TRANSACTION"
    COMMIT_PREPARED = "COMMIT PREPARED"
    ROLLBACK_PREPARED = "ROLLBACK PREPARED"


@frozen
class TransactionStmt(Statement):
    kind: TransactionKind
    options: tuple[DefElem, ...] = ()  # transaction_isolation, transaction_read_only, transaction_deferrable
    savepoint: str | None = None
    chain: bool = False
    gid: str | None = None
    location: int = -1


@frozen
class DiscardStmt(Statement):
    target: str


@frozen
class CheckPointStmt(Statement):
    pass


@frozen
class VacuumStmt(Statement):
    is_vacuum: bool  # False: ANALYZE
    options: tuple[DefElem, ...] = ()
    relations: tuple[tuple[RangeVar, tuple[str, ...]], ...] = ()
    newer: int = -1  # where it has what only PostgreSQL 18 has: ONLY, or *


@frozen
class UnsupportedStmt(Statement):
    """A PostgreSQL statement that pgrepl does not support: `what` is its command tag, "CREATE FUNCTION"."""

    what: str
    location: int = -1


# --- define -----------------------------------------------------------------------------------------------------------


@frozen
class OperatorName(Node):
    """An operator that a statement names, by the types of its operands; None: NONE was written."""

    name: tuple[str, ...]
    left: TypeName | None
    right: TypeName | None


@frozen
class DefineStmt(Statement):
    """CREATE OPERATOR | COLLATION. `source`: the collation that a new one is a copy of."""

    kind: ObjectType
    name: tuple[str, ...]
    options: tuple[DefElem, ...] = ()
    source: tuple[str, ...] | None = None
    if_not_exists: bool = False
    location: int = -1


@frozen
class AlterOperatorStmt(Statement):
    """ALTER OPERATOR … SET (options), or one of OWNER TO, SET SCHEMA."""

    operator: OperatorName
    options: tuple[DefElem, ...] = ()
    new_owner: RoleSpec | None = None
    new_schema: str | None = None


@frozen
class DropOperatorStmt(Statement):
    operators: tuple[OperatorName, ...]
    missing_ok: bool = False
    cascade: bool = False


@frozen
class AlterCollationStmt(Statement):
    """ALTER COLLATION … REFRESH VERSION."""

    name: tuple[str, ...]
