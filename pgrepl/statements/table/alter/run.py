"""ALTER TABLE, VIEW, INDEX and SEQUENCE: the three phases, and the function that prepares each action."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from pgrepl.catalog.facts.relation import Relation, relation
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.session.transaction import require_no_block
from pgrepl.ground.errors import unsupported
from pgrepl.query.result import Result
from pgrepl.rows.in_use import check_not_in_use
from pgrepl.rows.requirements import KeysExist, NotNull
from pgrepl.sql.nodes import AlterTableCmd, AlterTableKind, AlterTableStmt, Constraint
from pgrepl.sql.statements import command_tag
from pgrepl.statements.table import trigger
from pgrepl.statements.table.alter import add, attributes, constraint, options, partition
from pgrepl.statements.table.alter.type import prepare_type, refuse_used_row_type, schedule_rebuilding
from pgrepl.statements.table.alter.work import (
    COMPOSITE,
    FOREIGN,
    INDEX,
    MATVIEW,
    PARTITIONED_INDEX,
    TABLE,
    VIEW,
    AlteredTable,
    Pass,
    WorkQueue,
    check_target,
    cluster,
    for_children,
    identify,
    prepare_access_method,
    prepare_persistence,
    prepare_tablespace,
)
from pgrepl.statements.table.relations import check_alterable, named_relation, named_relation_or_none
from pgrepl.writing.phase3 import require, rewrite

Prepare = Callable[[WorkQueue, Relation, AlterTableCmd, bool, bool], None]


class Action(NamedTuple):
    """A command of one step. It is checked that it may be done to the relation; with `below` the relations that inherit
    from it do the step, too (ATSimpleRecursion)."""

    kinds: str  # of relations; empty: the step checks them itself
    when: Pass
    step: Callable[[WorkQueue, AlteredTable, AlterTableCmd, bool], None]
    below: bool = False


K = AlterTableKind
_LIKE_TABLES = TABLE + FOREIGN
_ACTIONS: dict[AlterTableKind, Action] = {
    K.ADD_COLUMN: Action(_LIKE_TABLES + COMPOSITE, Pass.ADD_COLUMN, add.add_new_column),
    K.DROP_COLUMN: Action(_LIKE_TABLES + COMPOSITE, Pass.DROP, attributes.drop_column),
    K.SET_EXPRESSION: Action(_LIKE_TABLES, Pass.SET_EXPRESSION, attributes.set_expression, below=True),
    K.ADD_IDENTITY: Action(_LIKE_TABLES + VIEW, Pass.ADD_OTHER, options.add_identity),
    K.SET_IDENTITY: Action(_LIKE_TABLES + VIEW, Pass.MISC, options.set_identity),
    K.DROP_IDENTITY: Action(_LIKE_TABLES + VIEW, Pass.DROP, options.drop_own_identity),
    K.SET_STATISTICS: Action(
        _LIKE_TABLES + MATVIEW + INDEX + PARTITIONED_INDEX, Pass.MISC, options.set_statistics, below=True
    ),
    K.SET_STORAGE: Action(_LIKE_TABLES + MATVIEW, Pass.MISC, options.set_storage, below=True),
    K.SET_COMPRESSION: Action(TABLE + MATVIEW, Pass.MISC, options.set_storage),
    K.SET_OPTIONS: Action(_LIKE_TABLES + MATVIEW, Pass.MISC, options.set_column_options),
    K.RESET_OPTIONS: Action(_LIKE_TABLES + MATVIEW, Pass.MISC, options.set_column_options),
    K.ADD_CONSTRAINT: Action(_LIKE_TABLES, Pass.ADD_CONSTRAINT, add.add_new_constraint),
    K.VALIDATE_CONSTRAINT: Action(_LIKE_TABLES, Pass.MISC, constraint.validate_constraint),
    K.DROP_CONSTRAINT: Action(_LIKE_TABLES, Pass.DROP, attributes.drop_constraint),
    K.REPLICA_IDENTITY: Action(TABLE + MATVIEW, Pass.MISC, identify),
    K.ATTACH_PARTITION: Action(TABLE + PARTITIONED_INDEX, Pass.MISC, partition.attach),
    K.DETACH_PARTITION: Action(TABLE, Pass.MISC, partition.detach_partition),
    K.DETACH_FINALIZE: Action(TABLE, Pass.MISC, partition.finish_detaching),
    K.NO_INHERIT: Action(_LIKE_TABLES, Pass.MISC, partition.inherit_no_more),
    K.OWNER: Action("", Pass.MISC, options.change_owner),
    **dict.fromkeys(
        (K.ENABLE_RLS, K.DISABLE_RLS, K.FORCE_RLS, K.NO_FORCE_RLS), Action(TABLE, Pass.MISC, options.set_row_security)
    ),
    **dict.fromkeys(
        (K.SET_RELOPTIONS, K.RESET_RELOPTIONS),
        Action(TABLE + VIEW + MATVIEW + INDEX, Pass.MISC, options.set_parameters),
    ),
    **dict.fromkeys((K.CLUSTER_ON, K.DROP_CLUSTER), Action(TABLE + MATVIEW, Pass.MISC, cluster)),
    **dict.fromkeys(trigger.ENABLED, Action(_LIKE_TABLES, Pass.MISC, trigger.enable_named)),
    K.DROP_OIDS: Action(_LIKE_TABLES, Pass.MISC, lambda work, altered, cmd, recurse: None),  # no table has any
}
_PREPARE: dict[AlterTableKind, Prepare] = {
    K.ALTER_TYPE: prepare_type,
    K.SET_DEFAULT: attributes.prepare_default,
    K.SET_NOT_NULL: constraint.prepare_set_not_null_command,
    K.DROP_NOT_NULL: constraint.prepare_drop_not_null,
    K.DROP_EXPRESSION: attributes.prepare_drop_expression,
    K.ALTER_CONSTRAINT: constraint.prepare_alter_constraint,
    K.INHERIT: partition.prepare_inherit,
    K.SET_LOGGED: prepare_persistence,
    K.SET_UNLOGGED: prepare_persistence,
    K.SET_TABLESPACE: prepare_tablespace,
    K.SET_ACCESS_METHOD: prepare_access_method,
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
        if cmd.kind in _ACTIONS:
            _prepare(work, rel, cmd, recurse)
        elif cmd.kind in _PREPARE:
            _PREPARE[cmd.kind](work, rel, cmd, recurse, False)
        else:
            raise unsupported(cmd.name or cmd.kind.value)
    finish(work)


def _prepare(work: WorkQueue, rel: Relation, cmd: AlterTableCmd, recurse: bool) -> None:
    action = _ACTIONS[cmd.kind]
    if action.kinds:
        check_target(work.session, cmd.kind.value.removesuffix(" OPTIONS"), rel, action.kinds)
    if action.below and recurse:
        for_children(work.session, rel, lambda child: _prepare(work, child, cmd, False))
    work.entry(rel).add(action.when, lambda work, altered: action.step(work, altered, cmd, recurse))


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
        constraint.prepare_set_not_null(work, relation(session, table), name, recurse=True, recursing=False)
    finish(work)


def add_foreign_keys(session: Session, table: int, constraints: Sequence[Constraint]) -> None:
    work = WorkQueue(session)
    rel = relation(session, table)
    for foreign in constraints:
        cmd = AlterTableCmd(K.ADD_CONSTRAINT, constraint=foreign)
        add.prepare_new_foreign_key(work, rel, cmd)
    finish(work)
