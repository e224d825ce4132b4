"""ALTER TABLE, VIEW, INDEX and SEQUENCE: the three phases, and the function that prepares each action."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pgrepl.catalog.facts.relation import Relation, relation
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.session.transaction import require_no_block
from pgrepl.ground.errors import unsupported
from pgrepl.query.result import Result
from pgrepl.rows.in_use import check_not_in_use
from pgrepl.rows.requirements import KeysExist, NotNull
from pgrepl.sql.nodes import AlterTableCmd, AlterTableKind, AlterTableStmt, Constraint
from pgrepl.sql.statements import command_tag
from pgrepl.statements.table.alter import add, attributes, constraint, drop, not_null, options, partition
from pgrepl.statements.table.alter import partition as partitions
from pgrepl.statements.table.alter import work as access
from pgrepl.statements.table.alter import work as cluster
from pgrepl.statements.table.alter import work as persistence
from pgrepl.statements.table.alter import work as replica
from pgrepl.statements.table.alter.rebuild import schedule_rebuilding
from pgrepl.statements.table.alter.type import prepare_type, refuse_used_row_type
from pgrepl.statements.table.alter.work import Pass, WorkQueue
from pgrepl.statements.table.alter_trigger import prepare_enable
from pgrepl.statements.table.relations import check_alterable, named_relation, named_relation_or_none
from pgrepl.writing.phase3 import require, rewrite

Prepare = Callable[[WorkQueue, Relation, AlterTableCmd, bool, bool], None]

K = AlterTableKind
_PREPARE: dict[AlterTableKind, Prepare] = {
    K.ADD_COLUMN: add.prepare_add_column,
    K.DROP_COLUMN: drop.prepare_drop_column,
    K.ALTER_TYPE: prepare_type,
    K.SET_DEFAULT: attributes.prepare_default,
    K.SET_NOT_NULL: not_null.prepare_set_not_null_command,
    K.DROP_NOT_NULL: not_null.prepare_drop_not_null,
    K.SET_EXPRESSION: attributes.prepare_set_expression,
    K.DROP_EXPRESSION: attributes.prepare_drop_expression,
    K.ADD_IDENTITY: options.prepare_identity,
    K.SET_IDENTITY: options.prepare_identity,
    K.DROP_IDENTITY: options.prepare_identity,
    K.SET_STATISTICS: options.prepare_statistics,
    K.SET_STORAGE: options.prepare_storage,
    K.SET_COMPRESSION: options.prepare_compression,
    K.SET_OPTIONS: options.prepare_column_options,
    K.RESET_OPTIONS: options.prepare_column_options,
    K.ADD_CONSTRAINT: add.prepare_add_constraint,
    K.ALTER_CONSTRAINT: constraint.prepare_alter_constraint,
    K.VALIDATE_CONSTRAINT: constraint.prepare_validate,
    K.DROP_CONSTRAINT: drop.prepare_drop_constraint,
    K.REPLICA_IDENTITY: replica.prepare_replica_identity,
    K.ATTACH_PARTITION: partitions.prepare_attach,
    K.DETACH_PARTITION: partitions.prepare_detach,
    K.DETACH_FINALIZE: partitions.prepare_detach_finalize,
    K.INHERIT: partition.prepare_inherit,
    K.NO_INHERIT: partition.prepare_no_inherit,
    K.OWNER: options.prepare_owner,
    K.ENABLE_RLS: options.prepare_row_security,
    K.DISABLE_RLS: options.prepare_row_security,
    K.FORCE_RLS: options.prepare_row_security,
    K.NO_FORCE_RLS: options.prepare_row_security,
    K.SET_RELOPTIONS: options.prepare_storage_parameters,
    K.RESET_RELOPTIONS: options.prepare_storage_parameters,
    K.CLUSTER_ON: cluster.prepare_cluster,
    K.DROP_CLUSTER: cluster.prepare_cluster,
    K.SET_LOGGED: persistence.prepare_persistence,
    K.SET_UNLOGGED: persistence.prepare_persistence,
    K.SET_TABLESPACE: access.prepare_tablespace,
    K.SET_ACCESS_METHOD: access.prepare_access_method,
    **dict.fromkeys(
        (
            K.ENABLE_TRIGGER,
            K.ENABLE_ALWAYS_TRIGGER,
            K.ENABLE_REPLICA_TRIGGER,
            K.ENABLE_TRIGGER_ALL,
            K.ENABLE_TRIGGER_USER,
            K.DISABLE_TRIGGER,
            K.DISABLE_TRIGGER_ALL,
            K.DISABLE_TRIGGER_USER,
        ),
        prepare_enable,
    ),
    K.DROP_OIDS: options.prepare_nothing,
}


def alter_table(stmt: AlterTableStmt, session: Session) -> Result:
    for cmd in stmt.commands:
        if cmd.kind is K.DETACH_PARTITION and cmd.concurrently:
            require_no_block(session, "ALTER TABLE ... DETACH CONCURRENTLY")
    find = named_relation_or_none if stmt.missing_ok else named_relation
    rel = find(session, stmt.relation)
    if rel is None:
        session.notice("NOTICE", f'relation "{stmt.relation.name}" does not exist, skipping')
    else:
        check_alterable(session, rel, stmt.kind, stmt.relation.name)
        check_not_in_use(session, rel, "ALTER TABLE")
        alter(session, rel, stmt.commands, recurse=stmt.relation.inh)
    return Result(command_tag(stmt))


def alter(session: Session, rel: Relation, commands: Sequence[AlterTableCmd], *, recurse: bool) -> None:
    """ALTER TABLE: prepares the commands, runs the passes, checks the rows (ATController)."""
    work = WorkQueue(session)
    work.entry(rel)  # comes before its children
    for cmd in commands:
        prepare = _PREPARE.get(cmd.kind)
        if prepare is None:
            raise unsupported(cmd.name or cmd.kind.value)
        prepare(work, rel, cmd, recurse, False)
    finish(work)


def finish(work: WorkQueue) -> None:
    """Phases 2 and 3."""
    for when in Pass:
        for altered in list(work.tables.values()):
            steps = altered.passes[when]
            for step in steps:
                step(work, altered)
            if steps and when in (Pass.ALTER_TYPE, Pass.SET_EXPRESSION):
                schedule_rebuilding(work, altered)
    _ask_rows(work)
    for altered in list(work.tables.values()):
        for action in altered.after:
            action()


def _ask_rows(work: WorkQueue) -> None:
    """As ATRewriteTables does: unique indexes of a rewritten table are checked after its other requirements, foreign
    keys after all tables."""
    session = work.session
    for altered in work.tables.values():
        converts = any(not value.renumbers for value in altered.new_values)
        if altered.before.kind == "r" and (converts or altered.persistence):
            refuse_used_row_type(session, altered.before)
    values = {altered.oid: altered.new_values for altered in work.tables.values() if altered.new_values}
    made_anew = rewrite(session, values)
    for index in work.unique:
        if index.table not in made_anew:
            require(session, index)
    for altered in work.tables.values():
        if altered.verify_not_null or altered.oid in made_anew:
            require(session, NotNull(altered.oid))
        for requirement in altered.pending:
            if not isinstance(requirement, KeysExist):
                require(session, requirement)
        for index in work.unique:
            if index.table == altered.oid and altered.oid in made_anew:
                require(session, index)
    for altered in work.tables.values():
        for requirement in altered.pending:
            if isinstance(requirement, KeysExist):
                require(session, requirement)


# --- for CREATE TABLE ---------------------------------------------------------------------------------------------


def set_not_null(session: Session, table: int, columns: Sequence[str]) -> None:
    """Set NOT NULL on the columns of a primary key that come from a parent."""
    work = WorkQueue(session)
    for name in columns:
        not_null.prepare_set_not_null(work, relation(session, table), name, recurse=True, recursing=False)
    finish(work)


def add_foreign_keys(session: Session, table: int, constraints: Sequence[Constraint]) -> None:
    work = WorkQueue(session)
    rel = relation(session, table)
    for foreign in constraints:
        cmd = AlterTableCmd(K.ADD_CONSTRAINT, constraint=foreign)
        add.prepare_new_foreign_key(work, rel, cmd)
    finish(work)
