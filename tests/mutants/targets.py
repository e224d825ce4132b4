"""The functions that decide, the tests of the usual run that have to notice each mutant of them, and the mutants that
nobody can tell from what was written, each with the reason."""

from __future__ import annotations

from typing import NamedTuple


class Target(NamedTuple):
    module: str
    functions: tuple[str, ...]  # none: all of the module
    tests: tuple[str, ...]


_R = "tests/replication/"
TARGETS = [
    Target(
        "pgrepl.replication.publisher.plan",
        ("any_true", "sent_of", "passing", "TableMessages.message", "TableMessages._passes", "TableMessages._sent"),
        (_R + "test_row_filter_sent.py",),
    ),
    Target(
        "pgrepl.replication.subscriber.state",
        ("states_for", "table_state", "applies_from", "unsettled", "settle_tables", "two_phase_can_begin"),
        (_R + "test_state.py",),
    ),
    Target(
        "pgrepl.replication.publisher.plan",
        (
            "ReplicaIdentity.of",
            "ReplicaIdentity.covers",
            "ReplicaIdentity.image",
            "ReplicaIdentity._is_changed",
            "ReplicaIdentity.have_image",
            "differing",
            "send_plan",
            "check_sendable",
            "_publication_at_change",
            "published_operations",
            "_published_as",
            "_filters",
            "published_columns",
            "_whole",
            "_member_value",
        ),
        (_R + "test_plan.py", _R + "test_row_filter_sent.py"),
    ),
    Target(
        "pgrepl.catalog.facts.publication",
        (
            "excepting_publications",
            "publishes_as_one_of_all",
            "partition_option",
            "is_publishable",
            "all_tables_relations",
            "schema_relations",
            "published_tables",
            "_published_relations",
            "_lists",
            "is_named",
            "_has_ancestor_in",
            "_published",
            "whole_columns",
            "topmost_ancestor",
        ),
        (_R + "test_plan.py", "tests/catalog/test_publication.py"),
    ),
    Target(
        "pgrepl.replication.subscriber.apply.columns.fold",
        ("fold_sorted", "_alone", "_joined", "fold", "_together"),
        (_R + "test_fold.py",),
    ),
    Target(
        "pgrepl.catalog.facts.roles",
        (
            "is_superuser",
            "has_attribute",
            "_walk",
            "_reachable",
            "inherited_in_order",
            "has_privs_of_role",
            "member_can_set_role",
            "check_can_set_role",
            "is_member_of_role",
            "is_member_of_role_nosuper",
            "is_admin_of_role",
            "has_admin_privs_of_role",
            "select_best_admin",
        ),
        ("tests/catalog/test_privileges.py",),
    ),
    Target(
        "pgrepl.catalog.facts.acl",
        (
            "parse_acl",
            "default_acl",
            "aclmask",
            "has_privilege",
            "object_mask",
            "check_execute",
            "_default_or_empty",
            "relation_acl",
            "relation_mask",
            "has_table_privilege",
            "has_column_privilege",
            "check_privilege",
            "check_table_privilege",
            "is_owner",
            "check_owner",
            "check_relation_owner",
        ),
        ("tests/catalog/test_privileges.py",),
    ),
    Target(
        "pgrepl.lake.commit",
        (
            "RowChanges.back_to",
            "_Ids.add",
            "_Ids.row",
            "_Ids.file",
            "_final",
            "_may_have_moved",
            "_find_again",
            "check_unchanged",
            "check_only_rows_changed",
            "_check_definitions",
            "record_writes",
            "_respect_locks",
            "_needs_catalog",
        ),
        ("tests/lake/test_commit_decides.py",),
    ),
    Target(
        "pgrepl.server.hba",
        ("matching", "_fits", "_fits_address", "_fits_database", "_fits_user", "_matches", "maps_to", "_maps"),
        ("tests/server/test_hba.py",),
    ),
    Target(
        "pgrepl.server.authentication",
        (
            "ScramExchange.first",
            "ScramExchange._after_flag",
            "ScramExchange.final",
            "_attribute",
            "_shown",
            "_mock",
            "certificate_hash",
        ),
        ("tests/server/test_scram.py",),
    ),
    Target(
        "pgrepl.catalog.facts.passwords",
        (
            "encrypt_password",
            "_md5",
            "md5_answer",
            "verify_password",
            "scram_verifier",
            "_prepared",
            "_mixes_directions",
        ),
        ("tests/catalog/test_passwords.py", "tests/server/test_scram.py"),
    ),
]

_F, _H = "pgrepl.replication.publisher.plan:", "pgrepl.server.hba:"
_S, _P = "pgrepl.replication.subscriber.state:", "pgrepl.replication.publisher.plan:"
_K = "pgrepl.replication.subscriber.apply.columns.fold:"
_U = "pgrepl.catalog.facts.publication:"
_O, _A = "pgrepl.catalog.facts.roles:", "pgrepl.catalog.facts.acl:"
_L = "pgrepl.lake.commit:record_writes: "
_C, _W = "pgrepl.server.authentication:", "pgrepl.catalog.facts.passwords:"
_LONG_WAY = "a key that is not known to have one step takes the longer way, to the same result"
_ITSELF = "a role is among those whose privileges it has, and of which it is a member"
_GRANTED = "what is granted already is granted once more"
_MASKED = "only what the mask has is added"
EQUIVALENT: dict[str, str] = {
    _F + "sent_of: 256 -> 257": "a code is a byte",
    _F + "sent_of: 1 -> 2 (2)": "numpy takes any negative number for the one that it finds itself",
    _F + "passing: test is None or not len(at) -> test is None": "of no rows none are tested",
    _F + "TableMessages.message: new is None or sent == DELETE -> sent == DELETE": "without a new row it is a DELETE",
    _F + "TableMessages._sent: row[number - 1] if number else None -> row[number - 1]": (
        "a partition has all columns of its ancestors that are sent"
    ),
    _H + "_fits_address: any((address.version == network.version and address in network for network in rule.networks))"
    " -> all((address.version == network.version and address in network for network in rule.networks))": (
        "a rule has one network at most, and without one it has a keyword or a name"
    ),
    _H + "_fits_address: address.version == network.version and address in network -> address in network": (
        "`in` compares the versions itself"
    ),
    _S + "applies_from: 0 -> 1": "a table without a state has no LSN that is looked at",
    _P + "ReplicaIdentity.have_image: deleted | has_changed(updated) if updated.any() else deleted"
    " -> deleted | has_changed(updated)": "of no updated rows none has changed",
    _P + "differing: True -> False": "the old and the new keys have the same columns",
    _P + "differing: old.null_count and new.null_count -> old.null_count": "without NULLs on one side no two are NULL",
    _P + "differing: old.null_count and new.null_count -> new.null_count": "without NULLs on one side no two are NULL",
    _P + "_published_as: topmost_ancestor(past, publication.oid, ancestors) if ancestors else None"
    " -> topmost_ancestor(past, publication.oid, ancestors)": "of no ancestors none is named",
    _P + "_whole: True -> False": "there is a list, or None, for each publication",
    _P + "_whole: min(generated, default='n') -> max(generated, default='n')": (
        "several values are an error, or the table has no generated columns"
    ),
    _P + "_member_value: publication.puballtables or member_schema(past, publication.oid, table.namespace) is not None"
    " -> member_schema(past, publication.oid, table.namespace) is not None": (
        "a publication FOR ALL TABLES names only tables that it does not send"
    ),
    _U + "excepting_publications: for row in rows(session, tables.pg_publication_rel, prrelid=relid) if row.prexcept"
    " -> for row in rows(session, tables.pg_publication_rel, prrelid=relid)": (
        "a publication FOR ALL TABLES, which is asked for, has no members but exceptions"
    ),
    _U + "publishes_as_one_of_all: bool(publication.puballtables) and"
    " publication.oid not in excepting_publications(session, relation)"
    " -> publication.oid not in excepting_publications(session, relation)": "only those FOR ALL TABLES are asked for",
    _U + "partition_option: relation is None or relation.kind != 'p' or part is PublicationPart.ROOT"
    " -> relation.kind != 'p' or part is PublicationPart.ROOT": "a member of a publication is there",
    _U + "all_tables_relations: row.relpersistence != 'p' or (row.relispartition and via_root) or row.oid in excepted"
    " -> row.relpersistence != 'p' or row.oid in excepted": "published_tables leaves out partitions of listed tables",
    _U + "_has_ancestor_in: relation is None or not relation.is_partition -> not relation.is_partition": (
        "a table that is listed is there"
    ),
    _U + "_published: not publication.puballtables and"
    " member_schema(session, publication.oid, relation.namespace) is None"
    " -> member_schema(session, publication.oid, relation.namespace) is None": (
        "a publication FOR ALL TABLES names only tables that it does not send"
    ),
    _U + "topmost_ancestor: relation is not None and is_named(session, pubid, relation)"
    " -> is_named(session, pubid, relation)": "an ancestor is there",
    _O + "_walk: database is not None and member == database.datdba and (ROLE_DATABASE_OWNER not in members)"
    " -> member == database.datdba and ROLE_DATABASE_OWNER not in members": "a session's database is there",
    _O + "_walk: database is not None and member == database.datdba and (ROLE_DATABASE_OWNER not in members)"
    " -> database is not None and member == database.datdba": "nobody but the owner of the database comes to it, once",
    _O
    + "has_privs_of_role: member == role or is_superuser(session, member) or role in inherited_roles(session, member)"
    " -> is_superuser(session, member) or role in inherited_roles(session, member)": _ITSELF,
    _O + "member_can_set_role: member == role or is_superuser(session, member)"
    " or role in _reachable(session, member, 'set_option')"
    " -> is_superuser(session, member) or role in _reachable(session, member, 'set_option')": _ITSELF,
    _O
    + "is_member_of_role: member == role or is_superuser(session, member) or role in _reachable(session, member, None)"
    " -> is_superuser(session, member) or role in _reachable(session, member, None)": _ITSELF,
    _O + "is_member_of_role_nosuper: member == role or role in _reachable(session, member, None)"
    " -> role in _reachable(session, member, None)": _ITSELF,
    _A + "aclmask: options and has_privs_of_role(session, role, owner) -> has_privs_of_role(session, role, owner)": (
        "without options in the mask none are added"
    ),
    _A + "aclmask: item.grantee == PUBLIC or item.grantee == role or has_privs_of_role(session, role, item.grantee)"
    " -> item.grantee == PUBLIC or has_privs_of_role(session, role, item.grantee)": _ITSELF,
    _A + "object_mask: kind is ObjectKind.SCHEMA and mask & BIT['USAGE'] and (not granted & BIT['USAGE'])"
    " -> kind is ObjectKind.SCHEMA and mask & BIT['USAGE']": _GRANTED,
    _A + "relation_mask: mask & _CHANGES and relation.oid < FIRST_NORMAL_OID and (relation.kind != 'v')"
    " -> relation.oid < FIRST_NORMAL_OID and relation.kind != 'v'": "what the mask does not have is not taken from it",
    _A + "relation_mask: mask & _CHANGES -> mask | _CHANGES": "what the mask does not have is not taken from it",
    _A + "relation_mask: mask & select and (not granted & select)"
    " and has_privs_of_role(session, role, ROLE_READ_ALL_DATA)"
    " -> mask & select and has_privs_of_role(session, role, ROLE_READ_ALL_DATA)": _GRANTED,
    _A + "relation_mask: mask & _DML and (not granted & _DML) and has_privs_of_role(session, role, ROLE_WRITE_ALL_DATA)"
    " -> not granted & _DML and has_privs_of_role(session, role, ROLE_WRITE_ALL_DATA)": _MASKED,
    _A + "relation_mask: mask & _DML -> mask | _DML": _MASKED,
    _A + "relation_mask: mask & maintain and (not granted & maintain)"
    " and has_privs_of_role(session, role, ROLE_MAINTAIN)"
    " -> mask & maintain and has_privs_of_role(session, role, ROLE_MAINTAIN)": _GRANTED,
    _K + "fold_sorted: step > TAKE -> step >= TAKE": _LONG_WAY,
    _K + "fold_sorted: True -> False": _LONG_WAY,
    _K + "fold_sorted: step <= TAKE -> step < TAKE": _LONG_WAY,
    _K + "fold: 1 -> 2 (7)": "any number before the first step of a key says that there was none",
    _K + "fold: 1 -> 2 (9)": "any number before the first step of a key says that there was none",
    _K + "fold: 1 -> 2 (11)": "an array that is one longer",
    _K + "fold: 1 -> 2 (13)": "an array that is one longer",
    _K + "fold: 1 -> 2 (14)": "each message that enters a key has left one",
    _L + "session.transaction.require_write() -> pass": "record() makes a snapshot, which asks for the write lock",
    _L + "session.snapshot() -> pass": "record() and what notes `extra` make it",
    _L + "crash_point('commit.begin') -> pass": "tests that kill alone stop there",
    _L + "crash_point('commit.end') -> pass": "tests that kill alone stop there",
    _L + "collects or not any((_needs_catalog(write) for write in writes))"
    " -> not any((_needs_catalog(write) for write in writes))": (
        "a prepared truncation is a test of tests/postgres/test_server_two_phase.py"
    ),
    _C + "ScramExchange.final: self._binding or b'' -> self._binding": "without a certificate nobody is offered PLUS",
    _C + "ScramExchange.final: True -> False (2)": "both have 32 bytes",
    _C + "ScramExchange.final: self._fails or not right -> not right": "no hash that somebody finds is 32 zeros",
    _C + "_mock: 32 -> 33": "nobody gets in by such a verifier, whatever its keys are",
    _C + "_mock: 32 -> 33 (2)": "nobody gets in by such a verifier, whatever its keys are",
    _W + "_md5: False -> True": "the same hash, where FIPS does not forbid it",
    _W + "md5_answer: False -> True": "the same hash, where FIPS does not forbid it",
    _H + "_maps: False -> True": "an expression that cannot be read has made its line a BadLine",
}
