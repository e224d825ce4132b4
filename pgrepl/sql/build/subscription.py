"""CREATE, ALTER and DROP SUBSCRIPTION."""

from __future__ import annotations

from pgrepl.sql.build import build
from pgrepl.sql.nodes import (
    AlterSubscriptionKind,
    AlterSubscriptionStmt,
    CreateSubscriptionStmt,
    DefElem,
    DropSubscriptionStmt,
)


@build
def create_subscription(
    location: int, name: str, conninfo: str, publications: list[str], options: list[DefElem]
) -> CreateSubscriptionStmt:
    return CreateSubscriptionStmt(name, conninfo, tuple(publications), tuple(options))


@build
def alter_subscription_options(location: int, name: str, options: list[DefElem]) -> AlterSubscriptionStmt:
    return AlterSubscriptionStmt(AlterSubscriptionKind.OPTIONS, name, options=tuple(options))


@build
def alter_subscription_connection(location: int, name: str, conninfo: str) -> AlterSubscriptionStmt:
    return AlterSubscriptionStmt(AlterSubscriptionKind.CONNECTION, name, conninfo)


@build
def alter_subscription_refresh(location: int, name: str, options: list[DefElem]) -> AlterSubscriptionStmt:
    return AlterSubscriptionStmt(AlterSubscriptionKind.REFRESH, name, options=tuple(options))


def _publications(
    kind: AlterSubscriptionKind, name: str, publications: list[str], options: list[DefElem]
) -> AlterSubscriptionStmt:
    return AlterSubscriptionStmt(kind, name, publications=tuple(publications), options=tuple(options))


@build
def alter_subscription_add(
    location: int, name: str, publications: list[str], options: list[DefElem]
) -> AlterSubscriptionStmt:
    return _publications(AlterSubscriptionKind.ADD_PUBLICATION, name, publications, options)


@build
def alter_subscription_set(
    location: int, name: str, publications: list[str], options: list[DefElem]
) -> AlterSubscriptionStmt:
    return _publications(AlterSubscriptionKind.SET_PUBLICATION, name, publications, options)


@build
def alter_subscription_drop(
    location: int, name: str, publications: list[str], options: list[DefElem]
) -> AlterSubscriptionStmt:
    return _publications(AlterSubscriptionKind.DROP_PUBLICATION, name, publications, options)


@build
def alter_subscription_enable(location: int, name: str) -> AlterSubscriptionStmt:
    return AlterSubscriptionStmt(AlterSubscriptionKind.ENABLED, name, options=(DefElem("enabled", True, location),))


@build
def alter_subscription_disable(location: int, name: str) -> AlterSubscriptionStmt:
    return AlterSubscriptionStmt(AlterSubscriptionKind.ENABLED, name, options=(DefElem("enabled", False, location),))


@build
def alter_subscription_skip(location: int, name: str, options: list[DefElem]) -> AlterSubscriptionStmt:
    return AlterSubscriptionStmt(AlterSubscriptionKind.SKIP, name, options=tuple(options))


@build
def drop_subscription(location: int, name: str, cascade: bool) -> DropSubscriptionStmt:
    return DropSubscriptionStmt(name, cascade=cascade)


@build
def drop_subscription_if_exists(location: int, name: str, cascade: bool) -> DropSubscriptionStmt:
    return DropSubscriptionStmt(name, missing_ok=True, cascade=cascade)
