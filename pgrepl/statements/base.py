"""The door to the commands: `execute(statement, session)` finds the family that knows the node.

Families load when the first of their statements comes. They register with

* `@execute.register(CreateStmt)` for a node class of their own;
* `@acts(DropStmt, ObjectType.TABLE, …)` for a statement about any kind of object (DROP, RENAME, OWNER TO, SET SCHEMA,
  COMMENT): a function of the statement and the session;
* `@removes(PG_CLASS)` for taking away an object when DROP reaches it, by name or by CASCADE;
* `@owners(PG_CLASS)` for giving an object a new owner in REASSIGN OWNED.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import singledispatch
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from pgrepl.catalog import classes
from pgrepl.catalog.classes import ObjectAddress
from pgrepl.errors import PgError, unsupported

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.query.result import Result
    from pgrepl.sql.nodes import AlterObjectSchemaStmt, AlterOwnerStmt, CommentStmt, DropStmt, RenameStmt, Statement
    from pgrepl.sql.nodes.utility import ObjectType

    AboutObject = DropStmt | RenameStmt | AlterOwnerStmt | AlterObjectSchemaStmt | CommentStmt


# the module that registers for each node
_MODULES = {
    "AlterDatabaseStmt": "database",
    "AlterObjectSchemaStmt": "objects",
    "AlterOwnerStmt": "objects",
    "AlterPublicationStmt": "publication",
    "AlterRoleSetStmt": "role_settings",
    "AlterRoleStmt": "role",
    "AlterSeqStmt": "sequence",
    "AlterSubscriptionStmt": "subscription",
    "AlterSystemStmt": "system_settings",
    "AlterTableStmt": "table.alter.run",
    "CommentStmt": "comment",
    "ConstraintsSetStmt": "rows",
    "CopyStmt": "rows",
    "CreateDatabaseStmt": "database",
    "CreatePublicationStmt": "publication",
    "CreateRoleStmt": "role",
    "CreateSchemaStmt": "schema",
    "CreateSeqStmt": "sequence",
    "CreateStmt": "table.create",
    "CreateSubscriptionStmt": "subscription",
    "CreateTableAsStmt": "table.create_as",
    "DeleteStmt": "rows",
    "DiscardStmt": "settings",
    "DropDatabaseStmt": "database",
    "DropOwnedStmt": "owned",
    "DropRoleStmt": "role",
    "DropStmt": "objects",
    "DropSubscriptionStmt": "subscription",
    "ExplainStmt": "explain",
    "GrantRoleStmt": "membership",
    "GrantStmt": "grant",
    "IndexStmt": "index.create",
    "InsertStmt": "rows",
    "MergeStmt": "rows",
    "ReassignOwnedStmt": "owned",
    "RenameStmt": "objects",
    "SelectStmt": "rows",
    "TransactionStmt": "transaction",
    "TruncateStmt": "rows",
    "UpdateStmt": "rows",
    "CheckPointStmt": "checkpoint",
    "VacuumStmt": "vacuum",
    "VariableSetStmt": "settings",
    "VariableShowStmt": "settings",
    "ViewStmt": "view",
}


@singledispatch
def execute(stmt: Statement, session: Session) -> Result:
    """Do what the statement says. Errors are PgError; the transaction is the caller's."""
    name = type(stmt).__name__
    module = _MODULES.get(name)
    if module is not None and _load(module) and execute.dispatch(type(stmt)) is not execute.dispatch(object):
        return execute(stmt, session)
    from pgrepl.sql.nodes import UnsupportedStmt
    from pgrepl.sql.tags import command_tag

    raise unsupported(stmt.what if isinstance(stmt, UnsupportedStmt) else command_tag(stmt))


def _load(module: str) -> bool:
    """Import a family. False: pgrepl has none of that name."""
    name = f"{__package__}.{module}"
    try:
        import_module(name)
    except ModuleNotFoundError as problem:
        if problem.name != name:
            raise
        return False
    return True


# --- statements about any kind of object ----------------------------------------------------------------------------

# by the word of ObjectType
_KIND_MODULES = {
    "column": "table.objects",
    "database": "database",
    "index": "table.objects",
    "publication": "publication",
    "role": "role",
    "schema": "schema",
    "sequence": "table.objects",
    "subscription": "subscription",
    "constraint": "table.objects",
    "table": "table.objects",
    "view": "table.objects",
}

_Action = TypeVar("_Action", bound=Callable[..., Any])
_actions: dict[tuple[type[Statement], ObjectType], Callable[[Any, Session], Result]] = {}


def acts(node: type[Statement], *kinds: ObjectType) -> Callable[[_Action], _Action]:
    """Register a function of (statement, session) for a statement about objects of these kinds."""

    def register(action: _Action) -> _Action:
        for kind in kinds:
            _actions[node, kind] = action
        return action

    return register


def action_for(stmt: AboutObject, kind: ObjectType) -> Callable[[Any, Session], Result] | None:
    """The function for this statement about this kind of object."""
    key = (type(stmt), kind)
    if key not in _actions and kind.value in _KIND_MODULES:
        _load(_KIND_MODULES[kind.value])
    return _actions.get(key)


# --- removing -------------------------------------------------------------------------------------------------------

_CLASS_MODULES = {
    classes.PG_CLASS: "table.objects",
    classes.PG_CONSTRAINT: "table.objects",
    classes.PG_ATTRDEF: "table.objects",
    classes.PG_REWRITE: "table.objects",
    classes.PG_NAMESPACE: "schema",
    classes.PG_PUBLICATION: "publication",
    classes.PG_PUBLICATION_REL: "publication",
    classes.PG_PUBLICATION_NAMESPACE: "publication",
    classes.PG_TYPE: "table.objects",
    classes.PG_SUBSCRIPTION: "subscription",
    classes.PG_DATABASE: "database",
}
_removals: dict[int, Callable[[Session, ObjectAddress], None]] = {}


def removes(*classids: int) -> Callable[[_Action], _Action]:
    """Register the function of (session, address) that takes away an object of these system tables."""

    def register(removal: _Action) -> _Action:
        for classid in classids:
            _removals[classid] = removal
        return removal

    return register


def remove_object(session: Session, address: ObjectAddress) -> None:
    """Take away an object that a deletion has reached."""
    if address.classid not in _removals and address.classid in _CLASS_MODULES:
        _load(_CLASS_MODULES[address.classid])
    removal = _removals.get(address.classid)
    if removal is None:
        raise PgError("XX000", f"unsupported object class: {address.classid}")
    removal(session, address)


def drop_objects(session: Session, addresses: Sequence[ObjectAddress], *, cascade: bool, quietly: bool = False) -> None:
    """DROP … [RESTRICT | CASCADE] of objects that the caller has found and may drop."""
    from pgrepl.catalog.depend import perform_deletion

    perform_deletion(session, addresses, cascade=cascade, remove=remove_object, quietly=quietly)


# --- owning ---------------------------------------------------------------------------------------------------------

_owner_changes: dict[int, Callable[[Session, int, int], None]] = {}


def owners(*classids: int) -> Callable[[_Action], _Action]:
    """Register the function of (session, oid, new owner) that ALTER … OWNER TO comes down to."""

    def register(change: _Action) -> _Action:
        for classid in classids:
            _owner_changes[classid] = change
        return change

    return register


def change_owner(session: Session, address: ObjectAddress, new_owner: int) -> None:
    if address.classid not in _owner_changes and address.classid in _CLASS_MODULES:
        _load(_CLASS_MODULES[address.classid])
    change = _owner_changes.get(address.classid)
    if change is None:
        raise PgError("XX000", f"unexpected classid {address.classid}")
    change(session, address.objid, new_owner)
