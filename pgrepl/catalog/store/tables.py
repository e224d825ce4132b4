"""The tables of catalog.db: PostgreSQL's system tables under PostgreSQL's names. DuckLake's stand in ducklake.py.

Our own columns: `datid` is a row's database; `begin_snapshot` and `end_snapshot` say when a version held (NULL: now);
`schema_id`, `table_id` and `column_id` are DuckLake's ids. Expressions are typed trees as JSON
(`pgrepl.expr.stored`); vectors are JSON lists; ACLs have role OIDs in place of names.
"""

from __future__ import annotations

from typing import Any

from pgrepl.catalog.store.declarative import (
    Bool,
    Char,
    Float8,
    Int2,
    Int4,
    Int8,
    Json,
    Lsn,
    Oid,
    SystemRow,
    Text,
    Varchar,
    VersionedRow,
)

# Tables with the state of statements, workers and other programs that write the lake. The rows of all other tables are
# definitions: a change of them is counted (pgrepl_instance.change_count), and until then sessions remember what they
# have read. DuckLake counts changes of its definitions in schema_version.
_WORK = frozenset(
    {
        "pg_replication_origin", "pg_replication_slot", "pg_sequence", "pg_stat_subscription_stats", "pgrepl_adopted",
        "pgrepl_change_file", "pgrepl_change_files", "pgrepl_conflict", "pgrepl_copy", "pgrepl_copy_range",
        "pgrepl_file", "pgrepl_inlined", "pgrepl_instance", "pgrepl_meeting",
        "pgrepl_prepared", "pgrepl_subscription_error", "pgrepl_sum", "pgrepl_walsender", "pgrepl_worker",
    }
)  # fmt: skip
_LAKE_DEFINITIONS = frozenset({"ducklake_schema", "ducklake_table", "ducklake_column", "ducklake_view"})


def is_work(name: str) -> bool:
    """Are the table's rows state and not definitions, so that change_count does not count their changes?"""
    return name in _WORK or (name.startswith("ducklake_") and name not in _LAKE_DEFINITIONS)


class pgrepl_instance(SystemRow):
    format_version: Int4
    system_identifier: Int8
    next_oid: Oid
    created_by: Varchar
    change_count: Int8
    lake_schema_version: Int8 | None


# --- roles, databases, schemas: shared by the instance, or by name in a database ----------------------------------


class pg_authid(SystemRow, key=("oid",), indexes=(("rolname",),)):
    oid: Oid
    rolname: Varchar
    rolsuper: Bool
    rolinherit: Bool
    rolcreaterole: Bool
    rolcreatedb: Bool
    rolcanlogin: Bool
    rolreplication: Bool
    rolbypassrls: Bool
    rolconnlimit: Int4
    rolpassword: Text | None
    rolvaliduntil: Varchar | None


class pg_auth_members(SystemRow, key=("oid",), indexes=(("member",), ("roleid",), ("grantor",))):
    oid: Oid
    roleid: Oid
    member: Oid
    grantor: Oid
    admin_option: Bool
    inherit_option: Bool
    set_option: Bool


class pg_db_role_setting(SystemRow, key=("setdatabase", "setrole"), indexes=(("setrole",),)):
    setdatabase: Oid
    setrole: Oid
    setconfig: Json[list[str]]


class pgrepl_setting(SystemRow, key=("name",)):
    """A setting of ALTER SYSTEM; or the mark of a standby (session/context.py)."""

    name: Varchar
    value: Text


class pg_database(SystemRow, key=("oid",), indexes=(("datname",),)):
    oid: Oid
    datname: Varchar
    datdba: Oid
    encoding: Int4
    datlocprovider: Varchar
    datistemplate: Bool
    datallowconn: Bool
    datconnlimit: Int4
    datcollate: Varchar
    datctype: Varchar
    datacl: Json[list[str]] | None


class pg_namespace(VersionedRow, key=("datid", "oid"), indexes=(("datid", "nspname"), ("nspowner",))):
    datid: Oid
    oid: Oid
    nspname: Varchar
    nspowner: Oid
    nspacl: Json[list[str]] | None
    schema_id: Int8 | None


# --- relations ----------------------------------------------------------------------------------------------------


class pg_class(
    VersionedRow,
    key=("oid",),
    indexes=(
        ("datid", "relnamespace", "relname"),
        ("datid", "relname"),
        ("relnamespace",),
        ("relowner",),
        ("table_id",),
    ),
    acl="relacl",
):
    datid: Oid
    oid: Oid
    relname: Varchar
    relnamespace: Oid
    reltype: Oid
    relowner: Oid
    relam: Oid
    relhasindex: Bool
    relpersistence: Char
    relkind: Char
    relnatts: Int2
    relchecks: Int2
    relhassubclass: Bool
    relrowsecurity: Bool
    relforcerowsecurity: Bool
    relreplident: Char
    relispartition: Bool
    relispopulated: Bool
    relacl: Json[list[str]] | None
    reloptions: Json[Any]
    relpartbound: Json[Any]
    table_id: Int8 | None


class pg_attribute(VersionedRow, key=("attrelid", "attnum"), acl="attacl"):
    attrelid: Oid
    attname: Varchar
    atttypid: Oid
    attnum: Int2
    atttypmod: Int4
    attndims: Int2
    attstorage: Char
    attcompression: Char | None
    attnotnull: Bool
    atthasdef: Bool
    atthasmissing: Bool
    attidentity: Char
    attgenerated: Char
    attisdropped: Bool
    attislocal: Bool
    attinhcount: Int2
    attstattarget: Int2 | None
    attcollation: Oid
    attacl: Json[list[str]] | None
    attoptions: Json[Any]
    attmissingval: Json[Any]
    column_id: Int8 | None


class pg_attrdef(VersionedRow, key=("oid",), indexes=(("adrelid", "adnum"),)):
    oid: Oid
    adrelid: Oid
    adnum: Int2
    adbin: Json[Any]


class pg_constraint(
    VersionedRow,
    key=("oid",),
    indexes=(
        ("conrelid",),
        ("contypid",),
        ("confrelid",),
        ("conindid",),
        ("conparentid",),
        ("connamespace", "conname"),
    ),
):
    datid: Oid
    oid: Oid
    conname: Varchar
    connamespace: Oid
    contype: Char
    condeferrable: Bool
    condeferred: Bool
    convalidated: Bool
    conrelid: Oid
    contypid: Oid | None
    conindid: Oid
    conparentid: Oid
    confrelid: Oid
    confupdtype: Char
    confdeltype: Char
    confmatchtype: Char
    conislocal: Bool
    coninhcount: Int2
    connoinherit: Bool
    conkey: Json[list[int]]
    confkey: Json[list[int]] | None
    confdelsetcols: Json[list[int]] | None
    conbin: Json[Any]
    conenforced: Bool
    conperiod: Bool


class pg_type(
    VersionedRow,
    key=("oid",),
    indexes=(("datid", "typnamespace", "typname"), ("datid", "typname"), ("typowner",)),
    acl="typacl",
):
    """A type that a user has created, or the array over one. Row types of tables and views have none."""

    datid: Oid
    oid: Oid
    typname: Varchar
    typnamespace: Oid
    typowner: Oid
    typtype: Char
    typrelid: Oid
    typelem: Oid
    typarray: Oid
    typnotnull: Bool
    typbasetype: Oid
    typtypmod: Int4
    typndims: Int4
    typcollation: Oid
    typdefaultbin: Json[Any]
    typacl: Json[list[str]] | None


class pg_range(VersionedRow, key=("rngtypid",), indexes=(("rngmultitypid",),)):
    """What a range type of a user is made of."""

    rngtypid: Oid
    rngsubtype: Oid
    rngmultitypid: Oid
    rngcollation: Oid
    rngsubopc: Oid
    rngcanonical: Oid
    rngsubdiff: Oid
    rngcast: Oid  # the cast to the multirange, which has no row of its own, and its function
    rngcastfunc: Oid


class pg_operator(SystemRow, key=("oid",), indexes=(("datid", "oprname"), ("oprnamespace",), ("oprowner",))):
    """An operator of a user; oprcode 0: a shell, which another operator names as its commutator or negator."""

    datid: Oid
    oid: Oid
    oprname: Varchar
    oprnamespace: Oid
    oprowner: Oid
    oprkind: Char
    oprcanmerge: Bool
    oprcanhash: Bool
    oprleft: Oid
    oprright: Oid
    oprresult: Oid
    oprcom: Oid
    oprnegate: Oid
    oprcode: Oid
    oprrest: Oid
    oprjoin: Oid


class pg_collation(SystemRow, key=("oid",), indexes=(("datid", "collname"), ("collnamespace",), ("collowner",))):
    """A collation that a user has created."""

    datid: Oid
    oid: Oid
    collname: Varchar
    collnamespace: Oid
    collowner: Oid
    collprovider: Char
    collisdeterministic: Bool
    collencoding: Int4
    collcollate: Text | None
    collctype: Text | None
    colllocale: Text | None
    collicurules: Text | None
    collversion: Text | None


class pg_default_acl(SystemRow, key=("oid",), indexes=(("datid", "defaclrole"), ("defaclnamespace",))):
    """Default privileges; namespace 0: of objects in all schemas."""

    datid: Oid
    oid: Oid
    defaclrole: Oid
    defaclnamespace: Oid
    defaclobjtype: Char
    defaclacl: Json[list[str]]


class pg_enum(VersionedRow, key=("oid",), indexes=(("enumtypid",),)):
    oid: Oid
    enumtypid: Oid
    enumsortorder: Float8
    enumlabel: Varchar
    storedlabel: Varchar  # its text in the lake, which stays when the label is renamed


class pg_index(VersionedRow, key=("indexrelid",), indexes=(("indrelid",),)):
    indexrelid: Oid
    indrelid: Oid
    indnatts: Int2
    indnkeyatts: Int2
    indisunique: Bool
    indnullsnotdistinct: Bool
    indisprimary: Bool
    indisexclusion: Bool
    indimmediate: Bool
    indisclustered: Bool
    indisvalid: Bool
    indisready: Bool
    indislive: Bool
    indisreplident: Bool
    indkey: Json[list[int]]
    indcollation: Json[list[int]]
    indclass: Json[list[int]]
    indoption: Json[list[int]]
    indexprs: Json[Any]
    indpred: Json[Any]


class pg_inherits(VersionedRow, key=("inhrelid", "inhseqno"), indexes=(("inhparent",),)):
    inhrelid: Oid
    inhparent: Oid
    inhseqno: Int4
    inhdetachpending: Bool


class pg_partitioned_table(VersionedRow, key=("partrelid",)):
    partrelid: Oid
    partstrat: Char
    partnatts: Int2
    partdefid: Oid
    partattrs: Json[list[int]]
    partclass: Json[list[int]]
    partcollation: Json[list[int]]
    partexprs: Json[Any]


class pg_rewrite(SystemRow, key=("oid",), indexes=(("ev_class",),)):
    oid: Oid
    rulename: Varchar
    ev_class: Oid
    ev_action: Json[Any]


class pg_proc(SystemRow, key=("oid",), indexes=(("datid", "proname"), ("pronamespace",), ("proowner",))):
    """A function or procedure of a user. Trees: the defaults of the last input parameters, and a body that is no
    string."""

    datid: Oid
    oid: Oid
    proname: Varchar
    pronamespace: Oid
    proowner: Oid
    prolang: Oid
    procost: Float8
    prorows: Float8
    provariadic: Oid
    prokind: Char
    prosecdef: Bool
    proleakproof: Bool
    proisstrict: Bool
    proretset: Bool
    provolatile: Char
    proparallel: Char
    pronargs: Int2
    prorettype: Oid
    proargtypes: Json[list[int]]
    proallargtypes: Json[list[int]] | None
    proargmodes: Json[list[str]] | None
    proargnames: Json[list[str]] | None
    proargdefaults: Json[Any]
    prosrc: Text
    prosqlbody: Json[Any]
    proconfig: Json[list[str]] | None
    proacl: Json[list[str]] | None


class pg_trigger(SystemRow, key=("oid",), indexes=(("tgrelid",), ("tgparentid",), ("tgconstraint",), ("tgfoid",))):
    """A trigger of CREATE TRIGGER; of the triggers of constraints, those that ALTER TABLE has enabled otherwise
    (triggers.py)."""

    oid: Oid
    tgrelid: Oid
    tgparentid: Oid
    tgname: Varchar
    tgfoid: Oid
    tgtype: Int2
    tgenabled: Char
    tgisinternal: Bool
    tgconstrrelid: Oid
    tgconstrindid: Oid
    tgconstraint: Oid
    tgdeferrable: Bool
    tginitdeferred: Bool
    tgattr: Json[list[int]]
    tgargs: Json[list[str]]
    tgqual: Json[Any]
    tgoldtable: Varchar | None
    tgnewtable: Varchar | None


class pg_sequence(SystemRow, key=("seqrelid",)):
    seqrelid: Oid
    seqtypid: Oid
    seqstart: Int8
    seqincrement: Int8
    seqmax: Int8
    seqmin: Int8
    seqcache: Int8
    seqcycle: Bool
    last_value: Int8
    is_called: Bool


class pg_depend(SystemRow, indexes=(("classid", "objid", "objsubid"), ("refclassid", "refobjid", "refobjsubid"))):
    datid: Oid
    classid: Oid
    objid: Oid
    objsubid: Int4
    refclassid: Oid
    refobjid: Oid
    refobjsubid: Int4
    deptype: Char


class pg_description(SystemRow, key=("objoid", "classoid", "objsubid", "datid")):
    datid: Oid
    objoid: Oid
    classoid: Oid
    objsubid: Int4
    description: Text


class pg_shdescription(SystemRow, key=("objoid", "classoid")):
    objoid: Oid
    classoid: Oid
    description: Text


# --- publications and subscriptions -------------------------------------------------------------------------------


class pg_publication(VersionedRow, key=("oid",), indexes=(("datid", "pubname"), ("pubowner",))):
    datid: Oid
    oid: Oid
    pubname: Varchar
    pubowner: Oid
    puballtables: Bool
    puballsequences: Bool
    pubinsert: Bool
    pubupdate: Bool
    pubdelete: Bool
    pubtruncate: Bool
    pubviaroot: Bool
    pubgencols: Char  # n (none), s (stored)


class pg_publication_rel(VersionedRow, key=("oid",), indexes=(("prpubid",), ("prrelid",))):
    oid: Oid
    prpubid: Oid
    prrelid: Oid
    prqual: Json[Any]
    prattrs: Json[list[int]] | None
    prexcept: Bool


class pg_publication_namespace(VersionedRow, key=("oid",), indexes=(("pnpubid",), ("pnnspid",))):
    datid: Oid
    oid: Oid
    pnpubid: Oid
    pnnspid: Oid


class pg_subscription(SystemRow, key=("oid",), indexes=(("subdbid", "subname"),)):
    oid: Oid
    subdbid: Oid
    subskiplsn: Lsn
    subname: Varchar
    subowner: Oid
    subenabled: Bool
    subbinary: Bool
    substream: Char
    subtwophasestate: Char
    subdisableonerr: Bool
    subpasswordrequired: Bool
    subrunasowner: Bool
    subfailover: Bool
    subconninfo: Text
    subslotname: Varchar | None
    subsynccommit: Varchar
    subpublications: Json[list[str]]
    suborigin: Varchar
    subschemachanges: Char  # our own: n (none), c (columns), t (tables), a (all)
    subconflictlog: Bool  # our own
    subsequences: Bool  # our own: all sequences follow, published or not
    subserver: Oid  # 0: the connection is subconninfo
    subretaindeadtuples: Bool
    submaxretention: Int4
    subhistory: Char  # our own: n (none), c (changes), v (versions)


class pg_subscription_rel(SystemRow, key=("srrelid", "srsubid"), indexes=(("srsubid",),)):
    srsubid: Oid
    srrelid: Oid
    srsubstate: Char
    srsublsn: Lsn | None
    srissequence: Bool  # our own; a sequence is in state i (its value is to be fetched) or r (ready)


class pg_foreign_server(SystemRow, key=("oid",), indexes=(("datid", "srvname"),)):
    datid: Oid
    oid: Oid
    srvname: Varchar
    srvowner: Oid
    srvfdw: Oid
    srvtype: Text | None
    srvversion: Text | None
    srvacl: Json[list[str]] | None
    srvoptions: Json[list[str]] | None


class pg_user_mapping(SystemRow, key=("oid",), indexes=(("umserver", "umuser"),)):
    datid: Oid
    oid: Oid
    umuser: Oid  # 0: PUBLIC
    umserver: Oid
    umoptions: Json[list[str]] | None


class pgrepl_subscription_schema(SystemRow, key=("srrelid", "srsubid"), indexes=(("srsubid",),)):
    """A subscribed table as its publisher described it when it was followed last (schema_changes)."""

    srsubid: Oid
    srrelid: Oid
    remote_relid: Oid  # 0: not known
    remote_columns: Json[list[list[Any]]]  # see KnownColumn in replication/subscriber/schema_changes/columns.py
    is_settled: Bool  # the table here has these columns


class pgrepl_conflict(SystemRow, key=("id",), indexes=(("subid",),)):
    """A conflict of a subscription with conflict_log, or a change of a transaction that was skipped. Rows are the text
    of a jsonb object."""

    id: Int8
    subid: Oid
    happened: Varchar
    finish_lsn: Lsn  # of the publisher's transaction
    xid: Int8
    schemaname: Varchar
    relname: Varchar
    operation: Varchar
    kind: Varchar
    state: Varchar
    detail: Text | None
    key: Text | None
    local_row: Text | None
    remote_row: Text | None
    origin: Varchar | None  # of the local row
    mended_row: Text | None  # what is applied in place of the remote row


class pg_stat_subscription_stats(SystemRow, key=("subid",)):
    subid: Oid
    apply_error_count: Int8
    sync_error_count: Int8
    stats_reset: Varchar | None


class pg_replication_slot(SystemRow, key=("slot_name",)):
    slot_name: Varchar
    plugin: Varchar | None
    slot_type: Varchar
    datoid: Oid | None
    temporary: Bool
    active_pid: Int4 | None
    restart_lsn: Lsn | None
    confirmed_flush_lsn: Lsn | None
    two_phase: Bool
    failover: Bool
    synced: Bool
    inactive_since: Varchar | None
    conflicting: Bool | None
    invalidation_reason: Varchar | None
    wal_status: Varchar | None
    catalog_snapshot: Int8 | None
    two_phase_at: Lsn | None


class pgrepl_worker(SystemRow, key=("subid", "relid")):
    """The apply worker of a subscription (relid 0), or the synchronization worker of a table."""

    subid: Oid
    relid: Oid
    token: Varchar
    pid: Int4
    host: Varchar
    since: Varchar
    beat: Float8
    received_lsn: Lsn | None
    last_msg_send_time: Varchar | None
    last_msg_receipt_time: Varchar | None
    latest_end_lsn: Lsn | None
    latest_end_time: Varchar | None


class pgrepl_meeting(SystemRow, key=("subid", "token")):
    """The place where the worker of a subscription waits for somebody who compares: it applies nothing that finishes at
    the LSN or later, and nothing at all while there is none."""

    subid: Oid
    token: Varchar
    pid: Int4
    host: Varchar
    beat: Float8
    lsn: Lsn | None


class pgrepl_copy(SystemRow, key=("token", "relid")):
    """A running copy, of a subscription's table or by a user; relid 0: of a query."""

    token: Varchar
    relid: Oid
    pid: Int4
    host: Varchar
    beat: Float8
    datid: Oid
    command: Varchar
    type: Varchar
    bytes_processed: Int8
    bytes_total: Int8
    tuples_processed: Int8
    tuples_excluded: Int8
    tuples_skipped: Int8
    pieces_total: Int4
    pieces_processed: Int4
    seconds_left: Float8 | None


class pgrepl_subscription_error(SystemRow, key=("subid", "relid")):
    """The error that stopped a worker, until a worker makes progress again; relid 0: the apply worker."""

    subid: Oid
    relid: Oid
    happened: Varchar
    sqlstate: Varchar
    message: Text
    detail: Text | None
    hint: Text | None
    context: Text | None


class pgrepl_copy_range(SystemRow, key=("subid", "relid", "number")):
    """A range of the key of a table that is copied in pieces, from `lower` up to `upper` (NULL: no bound), and the
    publisher's snapshot in which it was copied; NULL: not yet."""

    subid: Oid
    relid: Oid
    number: Int4
    lower: Text | None
    upper: Text | None
    snapshot: Text | None


class pgrepl_publisher(SystemRow, key=("subid",)):
    """The server or instance that a subscription has subscribed to."""

    subid: Oid
    system_identifier: Varchar


class pgrepl_change_file(SystemRow, key=("subid", "number")):
    """A file of changes that a subscription has read; at_end: nothing of it is left to apply. checked NULL: it stands
    for all files up to this one, with their number and the checksum of their names and sizes."""

    subid: Oid
    number: Int8
    name: Text
    size: Int8
    modified: Int8
    checked: Int8 | None
    checksum: Int8
    at_end: Bool


class pgrepl_change_files(SystemRow, key=("subid",)):
    """The rejected records of a subscription to files of changes; reject_size: the size of their file."""

    subid: Oid
    rejected: Int8
    reject_size: Int8


class pgrepl_walsender(SystemRow, key=("slot_name",)):
    """A walsender: the process that reads from a slot."""

    slot_name: Varchar
    token: Varchar
    pid: Int4
    host: Varchar
    beat: Float8
    usesysid: Oid
    application_name: Varchar
    backend_start: Varchar
    state: Varchar | None
    sent_lsn: Lsn | None
    write_lsn: Lsn | None
    flush_lsn: Lsn | None
    replay_lsn: Lsn | None
    reply_time: Varchar | None


class pgrepl_prepared(SystemRow, key=("gid",)):
    """A prepared transaction (lake/prepared.py)."""

    xid: Int8
    gid: Varchar
    owner: Oid
    datid: Oid
    prepared_at: Int8
    first_snapshot: Int8
    serializable: Bool
    holder: Int8
    locks: Text
    statements: Text
    origin_lsn: Lsn | None
    origin_at: Int8 | None


class pg_replication_origin(SystemRow, key=("roident",), indexes=(("roname",),)):
    roident: Int4
    roname: Varchar
    remote_lsn: Lsn | None
    local_lsn: Lsn | None
    caught_up: Varchar | None  # when all changes of the publisher had been applied


# --- checksums ----------------------------------------------------------------------------------------------------


class pgrepl_file(SystemRow, key=("file_id",), indexes=(("table_id",),)):
    """A data or delete file that pgrepl has written; data_file_id NULL: a data file."""

    file_id: Int8
    table_id: Int8
    data_file_id: Int8 | None
    begin_snapshot: Int8
    path: Varchar
    row_checksum: Int8 | None
    footer_checksum: Int8 | None
    checksum: Int8 | None


class pgrepl_inlined(SystemRow, key=("table_name", "begin_snapshot")):
    """The sum of the checksums of the rows that a snapshot has inlined into a table of the catalog."""

    table_name: Varchar
    begin_snapshot: Int8
    row_count: Int8
    checksum: Int8


class pgrepl_sum(SystemRow, key=("table_name",)):
    """The sum of the checksums of a system table's rows."""

    table_name: Varchar
    row_count: Int8
    checksum: Int8


class pgrepl_adopted(SystemRow, key=("snapshot_id",)):
    """A snapshot at which definitions of other writers were adopted."""

    snapshot_id: Int8
