"""Transactions and savepoints."""

from __future__ import annotations

from pgrepl.sql.build import build
from pgrepl.sql.nodes import DefElem, TransactionKind, TransactionStmt


@build
def start_transaction(location: int, modes: list[DefElem]) -> TransactionStmt:
    return TransactionStmt(TransactionKind.START, tuple(modes))


@build
def begin(location: int, _: None, modes: list[DefElem]) -> TransactionStmt:
    return TransactionStmt(TransactionKind.BEGIN, tuple(modes))


@build
def commit(location: int, _: None, chain: bool) -> TransactionStmt:
    return TransactionStmt(TransactionKind.COMMIT, chain=chain)


@build
def rollback(location: int, _: None, chain: bool) -> TransactionStmt:
    return TransactionStmt(TransactionKind.ROLLBACK, chain=chain)


@build(at=2)
def savepoint(location: int, name: str) -> TransactionStmt:
    return TransactionStmt(TransactionKind.SAVEPOINT, savepoint=name, location=location)


@build(at=2)
def release(location: int, name: str) -> TransactionStmt:
    return TransactionStmt(TransactionKind.RELEASE, savepoint=name, location=location)


@build(at=3)
def release_savepoint(location: int, name: str) -> TransactionStmt:
    return TransactionStmt(TransactionKind.RELEASE, savepoint=name, location=location)


@build(at=4)
def rollback_to(location: int, _: None, name: str) -> TransactionStmt:
    return TransactionStmt(TransactionKind.ROLLBACK_TO, savepoint=name, location=location)


@build(at=5)
def rollback_to_savepoint(location: int, _: None, name: str) -> TransactionStmt:
    return TransactionStmt(TransactionKind.ROLLBACK_TO, savepoint=name, location=location)


@build(at=3)
def prepare_transaction(location: int, gid: str) -> TransactionStmt:
    return TransactionStmt(TransactionKind.PREPARE, gid=gid, location=location)


@build(at=3)
def commit_prepared(location: int, gid: str) -> TransactionStmt:
    return TransactionStmt(TransactionKind.COMMIT_PREPARED, gid=gid, location=location)


@build(at=3)
def rollback_prepared(location: int, gid: str) -> TransactionStmt:
    return TransactionStmt(TransactionKind.ROLLBACK_PREPARED, gid=gid, location=location)


# ------------------------------------------------------------------------------------------------ modes


@build
def words(location: int, *words: str) -> str:
    return " ".join(words)


@build
def isolation_level(location: int, level: str) -> DefElem:
    return DefElem("transaction_isolation", level, location)


@build
def read_only(location: int) -> DefElem:
    return DefElem("transaction_read_only", True, location)


@build
def read_write(location: int) -> DefElem:
    return DefElem("transaction_read_only", False, location)


@build
def transaction_deferrable(location: int) -> DefElem:
    return DefElem("transaction_deferrable", True, location)


@build
def transaction_not_deferrable(location: int) -> DefElem:
    return DefElem("transaction_deferrable", False, location)
