"""The tables of catalog.db: PostgreSQL's system tables under PostgreSQL's names. DuckLake's stand in ducklake.py.

Some columns are our own. `datid` says which database a row belongs to where PostgreSQL has one such table a database.
`begin_snapshot` and `end_snapshot` stand in the tables that replication asks about the past: a row is current while
`end_snapshot` is NULL, and a change ends one version and begins another (see store.py). Expressions are typed trees as
JSON (`pgrepl.expr.stored`), oid and attnum vectors JSON lists of integers. ACLs are JSON lists of PostgreSQL's text
form with role OIDs in place of names ("16384=arw/10"; acl.py prints the names), so that renaming a role touches nothing
else. `schema_id`, `table_id` and `column_id` name the DuckLake schema, table (of a partitioned table the view) and
column that a row here is seen as; NULL where there is none.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Double, Integer, SmallInteger, String, Text

from pgrepl.catalog.later import Json, Lsn, Oid
from pgrepl.catalog.later import later_table as _table

# --- the instance -------------------------------------------------------------------------------------------------
pgrepl_instance = _table(
    "pgrepl_instance", (),
    ("format_version", Integer), ("system_identifier", BigInteger), ("next_oid", Oid), ("created_by", String),
    ("change_count", BigInteger), ("lake_schema_version", BigInteger),
)  # fmt: skip

# --- roles, databases, schemas: shared by the instance, or by name in a database ----------------------------------
pg_authid = _table(
    "pg_authid", ("oid",),
    ("oid", Oid), ("rolname", String), ("rolsuper", Boolean), ("rolinherit", Boolean), ("rolcreaterole", Boolean),
    ("rolcreatedb", Boolean), ("rolcanlogin", Boolean), ("rolreplication", Boolean), ("rolbypassrls", Boolean),
    ("rolconnlimit", Integer), ("rolpassword", Text), ("rolvaliduntil", String),
    indexes=(("rolname",),),
)  # fmt: skip
pg_auth_members = _table(
    "pg_auth_members", ("oid",),
    ("oid", Oid), ("roleid", Oid), ("member", Oid), ("grantor", Oid), ("admin_option", Boolean),
    ("inherit_option", Boolean), ("set_option", Boolean),
    indexes=(("member",), ("roleid",), ("grantor",)),
)  # fmt: skip
pg_db_role_setting = _table(
    "pg_db_role_setting", ("setdatabase", "setrole"),
    ("setdatabase", Oid), ("setrole", Oid), ("setconfig", Json),
    indexes=(("setrole",),),
)  # fmt: skip
pgrepl_setting = _table(  # ALTER SYSTEM
    "pgrepl_setting", ("name",),
    ("name", String), ("value", Text),
)  # fmt: skip
pg_database = _table(
    "pg_database", ("oid",),
    ("oid", Oid), ("datname", String), ("datdba", Oid), ("encoding", Integer), ("datlocprovider", String),
    ("datistemplate", Boolean), ("datallowconn", Boolean), ("datconnlimit", Integer), ("datcollate", String),
    ("datctype", String), ("datacl", Json),
    indexes=(("datname",),),
)  # fmt: skip
pg_namespace = _table(
    "pg_namespace", ("datid", "oid"),
    ("datid", Oid), ("oid", Oid), ("nspname", String), ("nspowner", Oid), ("nspacl", Json),
    ("schema_id", BigInteger),
    versioned=True, indexes=(("datid", "nspname"), ("nspowner",)),
)  # fmt: skip

# --- relations ----------------------------------------------------------------------------------------------------
pg_class = _table(
    "pg_class", ("oid",),
    ("datid", Oid), ("oid", Oid), ("relname", String), ("relnamespace", Oid), ("reltype", Oid), ("relowner", Oid),
    ("relam", Oid),
    ("relhasindex", Boolean), ("relpersistence", String(1)), ("relkind", String(1)), ("relnatts", SmallInteger),
    ("relchecks", SmallInteger), ("relhassubclass", Boolean), ("relrowsecurity", Boolean),
    ("relforcerowsecurity", Boolean), ("relreplident", String(1)), ("relispartition", Boolean), ("relacl", Json),
    ("reloptions", Json), ("relpartbound", Json), ("table_id", BigInteger),
    versioned=True, indexes=(("datid", "relnamespace", "relname"), ("relnamespace",), ("relowner",)),
    acl="relacl",
)  # fmt: skip
pg_attribute = _table(
    "pg_attribute", ("attrelid", "attnum"),
    ("attrelid", Oid), ("attname", String), ("atttypid", Oid), ("attnum", SmallInteger), ("atttypmod", Integer),
    ("attndims", SmallInteger), ("attstorage", String(1)), ("attcompression", String(1)), ("attnotnull", Boolean),
    ("atthasdef", Boolean), ("atthasmissing", Boolean), ("attidentity", String(1)), ("attgenerated", String(1)),
    ("attisdropped", Boolean),
    ("attislocal", Boolean), ("attinhcount", SmallInteger), ("attstattarget", SmallInteger), ("attcollation", Oid),
    ("attacl", Json), ("attoptions", Json),
    ("attmissingval", Json), ("column_id", BigInteger),
    versioned=True, acl="attacl",
)  # fmt: skip
pg_attrdef = _table(
    "pg_attrdef", ("oid",),
    ("oid", Oid), ("adrelid", Oid), ("adnum", SmallInteger), ("adbin", Json),
    versioned=True, indexes=(("adrelid", "adnum"),),
)  # fmt: skip
pg_constraint = _table(
    "pg_constraint", ("oid",),
    ("datid", Oid), ("oid", Oid), ("conname", String), ("connamespace", Oid), ("contype", String(1)),
    ("condeferrable", Boolean),
    ("condeferred", Boolean), ("convalidated", Boolean), ("conrelid", Oid), ("conindid", Oid), ("conparentid", Oid),
    ("confrelid", Oid), ("confupdtype", String(1)), ("confdeltype", String(1)), ("confmatchtype", String(1)),
    ("conislocal", Boolean), ("coninhcount", SmallInteger), ("connoinherit", Boolean), ("conkey", Json),
    ("confkey", Json), ("confdelsetcols", Json), ("conbin", Json),
    versioned=True,
    indexes=(("conrelid",), ("confrelid",), ("conindid",), ("conparentid",), ("connamespace", "conname")),
)  # fmt: skip
pg_index = _table(
    "pg_index", ("indexrelid",),
    ("indexrelid", Oid), ("indrelid", Oid), ("indnatts", SmallInteger), ("indnkeyatts", SmallInteger),
    ("indisunique", Boolean), ("indnullsnotdistinct", Boolean), ("indisprimary", Boolean),
    ("indisexclusion", Boolean), ("indimmediate", Boolean),
    ("indisclustered", Boolean), ("indisvalid", Boolean), ("indisready", Boolean), ("indislive", Boolean),
    ("indisreplident", Boolean), ("indkey", Json), ("indcollation", Json), ("indclass", Json), ("indoption", Json),
    ("indexprs", Json), ("indpred", Json),
    versioned=True, indexes=(("indrelid",),),
)  # fmt: skip
pg_inherits = _table(
    "pg_inherits", ("inhrelid", "inhseqno"),
    ("inhrelid", Oid), ("inhparent", Oid), ("inhseqno", Integer), ("inhdetachpending", Boolean),
    versioned=True, indexes=(("inhparent",),),
)  # fmt: skip
pg_partitioned_table = _table(
    "pg_partitioned_table", ("partrelid",),
    ("partrelid", Oid), ("partstrat", String(1)), ("partnatts", SmallInteger), ("partdefid", Oid), ("partattrs", Json),
    ("partclass", Json), ("partcollation", Json), ("partexprs", Json),
    versioned=True,
)  # fmt: skip
pg_rewrite = _table(
    "pg_rewrite", ("oid",),
    ("oid", Oid), ("rulename", String), ("ev_class", Oid), ("ev_action", Json),
    indexes=(("ev_class",),),
)  # fmt: skip
pg_sequence = _table(
    "pg_sequence", ("seqrelid",),
    ("seqrelid", Oid), ("seqtypid", Oid), ("seqstart", BigInteger), ("seqincrement", BigInteger),
    ("seqmax", BigInteger),
    ("seqmin", BigInteger), ("seqcache", BigInteger), ("seqcycle", Boolean), ("last_value", BigInteger),
    ("is_called", Boolean),
)  # fmt: skip
pg_depend = _table(
    "pg_depend", (),
    ("datid", Oid), ("classid", Oid), ("objid", Oid), ("objsubid", Integer), ("refclassid", Oid), ("refobjid", Oid),
    ("refobjsubid", Integer),
    ("deptype", String(1)),
    indexes=(("classid", "objid", "objsubid"), ("refclassid", "refobjid", "refobjsubid")),
)  # fmt: skip
pg_description = _table(
    "pg_description", ("objoid", "classoid", "objsubid", "datid"),
    ("datid", Oid), ("objoid", Oid), ("classoid", Oid), ("objsubid", Integer), ("description", Text),
)  # fmt: skip
pg_shdescription = _table(
    "pg_shdescription", ("objoid", "classoid"),
    ("objoid", Oid), ("classoid", Oid), ("description", Text),
)  # fmt: skip

# --- publications and subscriptions -------------------------------------------------------------------------------
pg_publication = _table(
    "pg_publication", ("oid",),
    ("datid", Oid), ("oid", Oid), ("pubname", String), ("pubowner", Oid), ("puballtables", Boolean),
    ("pubinsert", Boolean),
    ("pubupdate", Boolean), ("pubdelete", Boolean), ("pubtruncate", Boolean), ("pubviaroot", Boolean),
    versioned=True, indexes=(("datid", "pubname"), ("pubowner",)),
)  # fmt: skip
pg_publication_rel = _table(
    "pg_publication_rel", ("oid",),
    ("oid", Oid), ("prpubid", Oid), ("prrelid", Oid), ("prqual", Json), ("prattrs", Json),
    versioned=True, indexes=(("prpubid",), ("prrelid",)),
)  # fmt: skip
pg_publication_namespace = _table(
    "pg_publication_namespace", ("oid",),
    ("datid", Oid), ("oid", Oid), ("pnpubid", Oid), ("pnnspid", Oid),
    versioned=True, indexes=(("pnpubid",), ("pnnspid",)),
)  # fmt: skip
pg_subscription = _table(
    "pg_subscription", ("oid",),
    ("oid", Oid), ("subdbid", Oid), ("subskiplsn", Lsn), ("subname", String), ("subowner", Oid),
    ("subenabled", Boolean),
    ("subbinary", Boolean), ("substream", String(1)), ("subtwophasestate", String(1)), ("subdisableonerr", Boolean),
    ("subpasswordrequired", Boolean), ("subrunasowner", Boolean), ("subfailover", Boolean), ("subconninfo", Text),
    ("subslotname", String), ("subsynccommit", String), ("subpublications", Json), ("suborigin", String),
    indexes=(("subdbid", "subname"),),
)  # fmt: skip
pg_subscription_rel = _table(
    "pg_subscription_rel", ("srrelid", "srsubid"),
    ("srsubid", Oid), ("srrelid", Oid), ("srsubstate", String(1)), ("srsublsn", Lsn),
    indexes=(("srsubid",),),
)  # fmt: skip
pg_stat_subscription_stats = _table(
    "pg_stat_subscription_stats", ("subid",),
    ("subid", Oid), ("apply_error_count", BigInteger), ("sync_error_count", BigInteger), ("stats_reset", String),
)  # fmt: skip
pg_replication_slot = _table(
    "pg_replication_slot", ("slot_name",),
    ("slot_name", String), ("plugin", String), ("slot_type", String), ("datoid", Oid), ("temporary", Boolean),
    ("active_pid", Integer), ("restart_lsn", Lsn), ("confirmed_flush_lsn", Lsn), ("two_phase", Boolean),
    ("failover", Boolean), ("synced", Boolean), ("inactive_since", String), ("conflicting", Boolean),
    ("invalidation_reason", String), ("wal_status", String), ("catalog_snapshot", BigInteger), ("two_phase_at", Lsn),
)  # fmt: skip
pgrepl_worker = _table(  # who works for a subscription, or copies one of its tables; relid 0: the main stream
    "pgrepl_worker", ("subid", "relid"),
    ("subid", Oid), ("relid", Oid), ("token", String), ("pid", Integer), ("host", String), ("since", String),
    ("beat", Double), ("received_lsn", Lsn), ("last_msg_send_time", String), ("last_msg_receipt_time", String),
    ("latest_end_lsn", Lsn), ("latest_end_time", String),
)  # fmt: skip
pgrepl_copy = _table(  # a copy under way, of a subscription's table or by a user; relid 0: of a query
    "pgrepl_copy", ("token", "relid"),
    ("token", String), ("relid", Oid), ("pid", Integer), ("host", String), ("beat", Double), ("datid", Oid),
    ("command", String), ("type", String), ("bytes_processed", BigInteger), ("bytes_total", BigInteger),
    ("tuples_processed", BigInteger), ("tuples_excluded", BigInteger), ("tuples_skipped", BigInteger),
)  # fmt: skip
pgrepl_subscription_error = _table(  # what stopped a worker last, until one gets on again; relid 0: the main stream
    "pgrepl_subscription_error", ("subid", "relid"),
    ("subid", Oid), ("relid", Oid), ("happened", String), ("sqlstate", String), ("message", Text), ("detail", Text),
    ("context", Text),
)  # fmt: skip
pgrepl_publisher = _table(  # the server or instance that a subscription has subscribed to
    "pgrepl_publisher", ("subid",),
    ("subid", Oid), ("system_identifier", String),
)  # fmt: skip
pgrepl_walsender = _table(  # who reads from a slot
    "pgrepl_walsender", ("slot_name",),
    ("slot_name", String), ("token", String), ("pid", Integer), ("host", String), ("beat", Double), ("usesysid", Oid),
    ("application_name", String), ("backend_start", String), ("state", String), ("sent_lsn", Lsn), ("flush_lsn", Lsn),
    ("reply_time", String),
)  # fmt: skip
pgrepl_prepared = _table(  # prepared transactions (lake/prepared.py)
    "pgrepl_prepared", ("gid",),
    ("xid", BigInteger), ("gid", String), ("owner", Oid), ("datid", Oid), ("prepared_at", BigInteger),
    ("first_snapshot", BigInteger), ("serializable", Boolean), ("holder", BigInteger), ("locks", Text),
    ("statements", Text), ("origin_lsn", Lsn), ("origin_at", BigInteger),
)  # fmt: skip
pg_replication_origin = _table(
    "pg_replication_origin", ("roident",),
    ("roident", Integer), ("roname", String), ("remote_lsn", Lsn), ("local_lsn", Lsn),
    indexes=(("roname",),),
)  # fmt: skip

# --- checksums ----------------------------------------------------------------------------------------------------
pgrepl_file = _table(  # a data or delete file that pgrepl has written; data_file_id NULL: a data file
    "pgrepl_file", ("file_id",),
    ("file_id", BigInteger), ("table_id", BigInteger), ("data_file_id", BigInteger), ("begin_snapshot", BigInteger),
    ("path", String), ("row_checksum", BigInteger), ("footer_checksum", BigInteger), ("checksum", BigInteger),
    indexes=(("table_id",),),
)  # fmt: skip
pgrepl_inlined = _table(  # the sum of the checksums of the rows that a snapshot has put into a table of the catalog
    "pgrepl_inlined", ("table_name", "begin_snapshot"),
    ("table_name", String), ("begin_snapshot", BigInteger), ("row_count", BigInteger), ("checksum", BigInteger),
)  # fmt: skip
pgrepl_sum = _table(  # the sum of the checksums of a system table's rows
    "pgrepl_sum", ("table_name",),
    ("table_name", String), ("row_count", BigInteger), ("checksum", BigInteger),
)  # fmt: skip
pgrepl_adopted = _table(  # the snapshots at which definitions of other writers were adopted
    "pgrepl_adopted", ("snapshot_id",),
    ("snapshot_id", BigInteger),
)  # fmt: skip
