"""Dependencies between objects, and the objects that are dropped with another (PostgreSQL's dependency.c).

A row of pg_depend says: `depender` cannot be without `referenced`. How strongly: normal (dropping needs CASCADE),
auto (goes silently), internal (is a part: dropping it means dropping the whole), partition (of one primary and one
secondary whole). Objects that initdb made are pinned: no dependency on them is recorded, and they cannot be dropped.

`perform_deletion` is given the function that removes an object of each kind (`statements`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, Flag, auto
from typing import TYPE_CHECKING

from pgrepl.catalog.facts.objects import describe_object
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.store import delete, insert_many, rows
from pgrepl.catalog.store.system import FIRST_NORMAL_OID, PG_NAMESPACE, PUBLIC_NAMESPACE, ObjectAddress
from pgrepl.ground.errors import PgError

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session

_MOST_REPORTED = 100


class Dependency(Enum):
    """pg_depend.deptype."""

    NORMAL = "n"
    AUTO = "a"
    INTERNAL = "i"
    PARTITION_PRI = "P"
    PARTITION_SEC = "S"


class _Reached(Flag):
    """Why an object is to be deleted."""

    ORIGINAL = auto()
    NORMAL = auto()
    AUTO = auto()
    INTERNAL = auto()
    PARTITION = auto()
    REVERSE = auto()
    IS_PART = auto()
    SUBOBJECT = auto()


_NOTHING = _Reached(0)
_REACHED_BY = {
    "n": _Reached.NORMAL,
    "a": _Reached.AUTO,
    "i": _Reached.INTERNAL,
    "P": _Reached.PARTITION,
    "S": _Reached.PARTITION,
}
_SILENT = _Reached.AUTO | _Reached.INTERNAL | _Reached.PARTITION


# --- recording ----------------------------------------------------------------------------------------------------


def is_pinned(address: ObjectAddress) -> bool:
    """Was it made by initdb, and does the system need it? The schema public is not pinned (IsPinnedObject)."""
    if address.classid == PG_NAMESPACE and address.objid == PUBLIC_NAMESPACE:
        return False
    return address.objid < FIRST_NORMAL_OID


def record_dependency(
    session: Session, depender: ObjectAddress, referenced: ObjectAddress, kind: Dependency = Dependency.NORMAL
) -> None:
    record_dependencies(session, depender, [referenced], kind)


def record_dependencies(
    session: Session, depender: ObjectAddress, referenced: Iterable[ObjectAddress], kind: Dependency = Dependency.NORMAL
) -> None:
    """Record what `depender` needs, once for each object, except pinned ones (recordMultipleDependencies)."""
    wanted = [r for r in dict.fromkeys(referenced) if not is_pinned(r)]
    datid = session.database_oid
    insert_many(
        session,
        tables.pg_depend,
        [
            {
                "datid": datid, "classid": depender.classid, "objid": depender.objid, "objsubid": depender.subid,
                "refclassid": r.classid, "refobjid": r.objid, "refobjsubid": r.subid, "deptype": kind.value,
            }
            for r in wanted
        ],
    )  # fmt: skip


def forget_dependencies(
    session: Session, depender: ObjectAddress, *, refclassid: int | None = None, kind: Dependency | None = None
) -> int:
    """Delete the records of what `depender` needs, of one class or kind if given (deleteDependencyRecordsFor…)."""
    where: dict[str, int | str] = {
        "datid": session.database_oid, "classid": depender.classid, "objid": depender.objid, "objsubid": depender.subid,
    }  # fmt: skip
    if refclassid is not None:
        where["refclassid"] = refclassid
    if kind is not None:
        where["deptype"] = kind.value
    return delete(session, tables.pg_depend, **where)


def dependencies_of(session: Session, depender: ObjectAddress) -> list[tables.pg_depend]:
    """The rows of pg_depend of an object; without a column number those of its columns too."""
    where = {"datid": session.database_oid, "classid": depender.classid, "objid": depender.objid}
    if depender.subid:
        where["objsubid"] = depender.subid
    return rows(session, tables.pg_depend, **where)


def dependents_of(session: Session, referenced: ObjectAddress) -> list[tables.pg_depend]:
    """The rows of pg_depend that refer to an object; without a column number those to its columns too."""
    where = {"datid": session.database_oid, "refclassid": referenced.classid, "refobjid": referenced.objid}
    if referenced.subid:
        where["refobjsubid"] = referenced.subid
    return rows(session, tables.pg_depend, **where)


# --- deleting -----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Target:
    address: ObjectAddress
    flags: _Reached
    dependee: ObjectAddress | None = None


class _Search:
    """The objects to be dropped, in their order (findDependentObjects)."""

    def __init__(self, session: Session, pending: Sequence[ObjectAddress]) -> None:
        self.session = session
        self.pending = pending
        self.targets: list[_Target] = []
        self._known: dict[tuple[int, int], list[_Target]] = {}
        self._stack: list[_Target] = []

    def visit(self, address: ObjectAddress, flags: _Reached) -> None:
        if self._on_stack(address, flags) or self._in_targets(address, flags):
            return
        if is_pinned(address):
            raise PgError(
                "2BP01",
                f"cannot drop {describe_object(self.session, address)} because it is required by the database system",
            )
        outcome = self._owner_first(address, flags)
        if outcome is None:
            return
        flags, part_of = outcome
        here = _Target(address, flags)
        parent = self._stack[-1].address if self._stack else None
        self._stack.append(here)
        for dependent, reached in self._dependents(address):
            self.visit(dependent, reached)
        self._stack.pop()
        here.dependee = part_of if here.flags & _Reached.IS_PART else parent
        self.targets.append(here)
        self._known.setdefault((address.classid, address.objid), []).append(here)

    def _owner_first(self, address: ObjectAddress, flags: _Reached) -> tuple[_Reached, ObjectAddress | None] | None:
        """The flags and the address by which the object itself is deleted: a part goes with its whole. None: the whole
        has been visited."""
        owner: ObjectAddress | None = None
        part_of: ObjectAddress | None = None
        for row in dependencies_of(self.session, address):
            other = ObjectAddress(row.refclassid, row.refobjid, row.refobjsubid)
            if other[:2] == address[:2] and address.subid == 0:
                continue
            if row.deptype == "i":
                if not self._stack:
                    if other in self.pending or other._replace(subid=0) in self.pending:
                        return None
                    owner = owner or other
                elif not self._on_stack(other, _NOTHING):
                    self.visit(other, _Reached.REVERSE)
                    if not self._in_targets(address, flags):
                        raise PgError(
                            "XX000",
                            f"deletion of owning object {describe_object(self.session, other)} failed to delete "
                            f"{describe_object(self.session, address)}",
                        )
                    return None
            elif row.deptype == "P":
                flags |= _Reached.IS_PART
                part_of = other
            elif row.deptype == "S":
                if not flags & _Reached.IS_PART:
                    part_of = other
                flags |= _Reached.IS_PART
        if owner is not None:
            raise _required_by(self.session, address, part_of or owner)
        return flags, part_of

    def _dependents(self, address: ObjectAddress) -> list[tuple[ObjectAddress, _Reached]]:
        dependents = []
        for row in dependents_of(self.session, address):
            other = ObjectAddress(row.classid, row.objid, row.objsubid)
            if other[:2] == address[:2] and address.subid == 0:
                continue
            dependents.append((other, _REACHED_BY[row.deptype]))
        # newer objects before older ones (object_address_comparator)
        dependents.sort(key=lambda f: (-f[0].objid, f[0].classid, f[0].subid & 0xFFFF_FFFF))
        return dependents

    def _on_stack(self, address: ObjectAddress, flags: _Reached) -> bool:
        return _add_flags([t for t in reversed(self._stack) if t.address[:2] == address[:2]], address, flags)

    def _in_targets(self, address: ObjectAddress, flags: _Reached) -> bool:
        return _add_flags(self._known.get((address.classid, address.objid), []), address, flags)


def _add_flags(same: Iterable[_Target], address: ObjectAddress, flags: _Reached) -> bool:
    """Is the object, or the relation whose column it is, among these targets? They get the flags, too."""
    present = False
    for target in same:
        if target.address.subid == address.subid:
            target.flags |= flags
            present = True
        elif target.address.subid == 0:
            present = True
        elif address.subid == 0 and flags:
            target.flags |= flags | _Reached.SUBOBJECT
    return present


def _required_by(session: Session, address: ObjectAddress, owner: ObjectAddress) -> PgError:
    whole = describe_object(session, owner)
    return PgError(
        "2BP01",
        f"cannot drop {describe_object(session, address)} because {whole} requires it",
        hint=f"You can drop {whole} instead.",
    )


def perform_deletion(
    session: Session,
    objects: Sequence[ObjectAddress],
    *,
    cascade: bool,
    remove: Callable[[Session, ObjectAddress], None],
    quietly: bool = False,
) -> None:
    """Delete the objects and what depends on them, or refuse (performMultipleDeletions).

    `remove` deletes the object's own rows; its dependencies and comments are deleted here.
    """
    search = _Search(session, objects)
    for address in objects:
        search.visit(address, _Reached.ORIGINAL)
    _report(session, search.targets, cascade, quietly, objects[0] if len(objects) == 1 else None)
    for target in search.targets:
        remove(session, target.address)
        _forget_object(session, target.address)


def _report(
    session: Session, targets: Sequence[_Target], cascade: bool, quietly: bool, original: ObjectAddress | None
) -> None:
    for target in targets:
        if target.flags & _Reached.IS_PART and not target.flags & _Reached.PARTITION:
            assert target.dependee is not None
            raise _required_by(session, target.address, target.dependee)
    lines: list[str] = []
    more = 0
    for target in reversed(targets):
        if target.flags & (_Reached.ORIGINAL | _Reached.SUBOBJECT):
            continue
        if target.flags & _SILENT:
            session.notice("DEBUG2", f"drop auto-cascades to {describe_object(session, target.address)}")
            continue
        if len(lines) == _MOST_REPORTED:
            more += 1
        elif cascade:
            lines.append(f"drop cascades to {describe_object(session, target.address)}")
        else:
            assert target.dependee is not None
            needed = describe_object(session, target.dependee)
            lines.append(f"{describe_object(session, target.address)} depends on {needed}")
    if not lines:
        return
    count = len(lines) + more
    detail = "\n".join(lines)
    if more:
        detail += f"\nand {more} other object{'s' if more > 1 else ''} (see server log for list)"
    if not cascade:
        raise PgError(
            "2BP01",
            f"cannot drop {describe_object(session, original)} because other objects depend on it"
            if original is not None
            else "cannot drop desired object(s) because other objects depend on them",
            detail=detail,
            hint="Use DROP ... CASCADE to drop the dependent objects too.",
        )
    severity = "DEBUG2" if quietly else "NOTICE"
    if count > 1:
        session.notice(severity, f"drop cascades to {count} other objects", detail=detail)
    else:
        session.notice(severity, detail)


def _forget_object(session: Session, address: ObjectAddress) -> None:
    """Delete an object's dependencies and comments, those of its columns included (deleteOneObject)."""
    datid = session.database_oid
    depender: dict[str, int] = {"datid": datid, "classid": address.classid, "objid": address.objid}
    comment: dict[str, int] = {"datid": datid, "objoid": address.objid, "classoid": address.classid}
    if address.subid:
        depender["objsubid"] = address.subid
        comment["objsubid"] = address.subid
    delete(session, tables.pg_depend, **depender)
    delete(session, tables.pg_description, **comment)
