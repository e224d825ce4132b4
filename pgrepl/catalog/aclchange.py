"""Changing an access control list: granting, revoking with what depends on it, a new owner (PostgreSQL's acl.c)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pgrepl.catalog.acl import Acl, AclItem, ObjectKind, aclmask, default_acl, parse_acl, store_acl
from pgrepl.catalog.roles import PUBLIC, inherited_in_order, is_superuser
from pgrepl.errors import PgError

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


def grant(
    session: Session, acl: Acl, owner: int, grantor: int, grantees: Sequence[int], privileges: int, *, option: bool
) -> Acl:
    """GRANT [WITH GRANT OPTION]."""
    for grantee in grantees:
        if option and grantee == PUBLIC:
            raise PgError("0LP01", "grant options can only be granted to roles")
        change = AclItem(grantee, grantor, privileges, privileges if option else 0)
        if change.options:
            _check_circularity(session, acl, change, owner)
        acl = _replaced(acl, change, lambda old, new: (old[0] | new[0], old[1] | new[1]))
    return acl


def revoke(
    session: Session,
    acl: Acl,
    owner: int,
    grantor: int,
    grantees: Sequence[int],
    privileges: int,
    *,
    option_only: bool,
    cascade: bool,
) -> Acl:
    """REVOKE [GRANT OPTION FOR] … [CASCADE]. Privileges that were granted by a lost grant option are revoked, too."""
    for grantee in grantees:
        change = AclItem(grantee, grantor, 0 if option_only else privileges, privileges)
        acl = _revoked(session, acl, change, owner, cascade)
    return acl


def _replaced(acl: Acl, change: AclItem, combine: object) -> Acl:
    """The list with the item of this grantee and grantor combined with the change, dropped if nothing is left."""
    assert callable(combine)
    old = next((i for i in acl if i[:2] == change[:2]), None)
    before = (0, 0) if old is None else (old.privileges, old.options)
    privileges, options = combine(before, (change.privileges, change.options))
    fresh = AclItem(change.grantee, change.grantor, privileges, options)
    if old is None:
        return (*acl, fresh) if privileges or options else acl
    if not privileges and not options:
        return tuple(i for i in acl if i is not old)
    return tuple(fresh if i is old else i for i in acl)


def _revoked(session: Session, acl: Acl, change: AclItem, owner: int, cascade: bool) -> Acl:
    old = next((i for i in acl if i[:2] == change[:2]), None)
    acl = _replaced(acl, change, lambda had, less: (had[0] & ~less[0], had[1] & ~less[1]))
    lost = 0 if old is None else old.options & change.options
    return _without_dependents(session, acl, change.grantee, lost, owner, cascade) if lost else acl


def _without_dependents(session: Session, acl: Acl, grantee: int, lost: int, owner: int, cascade: bool) -> Acl:
    """The list without the privileges that depend on lost grant options (recursive_revoke). The owner never loses an
    option; another role may still have it from a second grantor."""
    if grantee == owner:
        return acl
    lost &= ~(aclmask(session, acl, grantee, owner, lost << 16) >> 16)
    while lost:
        dependent = next((i for i in acl if i.grantor == grantee and i.privileges & lost), None)
        if dependent is None:
            break
        if not cascade:
            raise PgError("2BP01", "dependent privileges exist", hint="Use CASCADE to revoke them too.")
        acl = _revoked(session, acl, AclItem(dependent.grantee, grantee, lost, lost), owner, cascade)
    return acl


def _check_circularity(session: Session, acl: Acl, change: AclItem, owner: int) -> None:
    """An error unless the grantor still has its options without those of the grantee and their dependents
    (check_circularity)."""
    if change.grantor == owner:
        return
    while True:
        given = next((i for i in acl if i.grantee == change.grantee and i.options), None)
        if given is None:
            break
        acl = _revoked(session, acl, given, owner, cascade=True)
    own = aclmask(session, acl, change.grantor, owner, change.options << 16) >> 16
    if change.options & ~own:
        raise PgError("0LP01", "grant options cannot be granted back to your own grantor")


def best_grantor(session: Session, role: int, privileges: int, acl: Acl, owner: int) -> tuple[int, int]:
    """The role to grant as, and the grant options that it has (select_best_grantor)."""
    if role == owner or is_superuser(session, role):
        return owner, privileges
    best, most = (role, 0), 0
    for other in inherited_in_order(session, role):
        options = privileges if other == owner else 0
        for item in acl:
            if item.grantee == other:
                options |= item.options & privileges
        if options == privileges:
            return other, options
        if bin(options).count("1") > most:
            best, most = (other, options), bin(options).count("1")
    return best


def with_new_owner(stored: Sequence[str] | None, old: int, new: int) -> list[str] | None:
    """The stored list after ALTER … OWNER TO: the new owner stands where the old one stood (aclnewowner)."""
    acl = parse_acl(stored)
    if acl is None:
        return None
    merged: dict[tuple[int, int], AclItem] = {}
    for item in acl:
        grantee = new if item.grantee == old else item.grantee
        grantor = new if item.grantor == old else item.grantor
        known = merged.get((grantee, grantor))
        privileges, options = item.privileges, item.options
        if known is not None:
            privileges, options = privileges | known.privileges, options | known.options
        merged[grantee, grantor] = AclItem(grantee, grantor, privileges, options)
    return store_acl(merged.values())


def effective_acl(kind: ObjectKind, owner: int, stored: Sequence[str] | None) -> Acl:
    """The stored list, or else the default."""
    acl = parse_acl(stored)
    return default_acl(kind, owner) if acl is None else acl
