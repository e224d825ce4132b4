-- PostgreSQL's system views, as queries of our own over the system catalogs. One a paragraph: its name, then its SELECT,
-- whose columns are those of the view in PostgreSQL 17, in order.

pg_catalog.pg_roles
SELECT rolname, rolsuper, rolinherit, rolcreaterole, rolcreatedb, rolcanlogin, rolreplication, rolconnlimit,
       '********'::text AS rolpassword, rolvaliduntil, rolbypassrls, s.setconfig AS rolconfig, a.oid
FROM pg_authid a LEFT JOIN pg_db_role_setting s ON s.setrole = a.oid AND s.setdatabase = 0

pg_catalog.pg_shadow
SELECT rolname AS usename, a.oid AS usesysid, rolcreatedb AS usecreatedb, rolsuper AS usesuper, rolreplication AS userepl,
       rolbypassrls AS usebypassrls, rolpassword AS passwd, rolvaliduntil AS valuntil, s.setconfig AS useconfig
FROM pg_authid a LEFT JOIN pg_db_role_setting s ON s.setrole = a.oid AND s.setdatabase = 0
WHERE rolcanlogin

pg_catalog.pg_user
SELECT usename, usesysid, usecreatedb, usesuper, userepl, usebypassrls, '********'::text AS passwd, valuntil, useconfig
FROM pg_shadow

pg_catalog.pg_group
SELECT rolname AS groname, a.oid AS grosysid, ARRAY(SELECT m.member FROM pg_auth_members m WHERE m.roleid = a.oid) AS grolist
FROM pg_authid a WHERE NOT rolcanlogin

pg_catalog.pg_tables
SELECT n.nspname AS schemaname, c.relname AS tablename, pg_get_userbyid(c.relowner) AS tableowner, CASE WHEN c.relisshared THEN 'pg_global'::name END AS tablespace,
       c.relhasindex AS hasindexes, c.relhasrules AS hasrules, c.relhastriggers AS hastriggers, c.relrowsecurity AS rowsecurity
FROM pg_class c LEFT JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p')

pg_catalog.pg_views
SELECT n.nspname AS schemaname, c.relname AS viewname, pg_get_userbyid(c.relowner) AS viewowner,
       pg_get_viewdef(c.oid) AS definition
FROM pg_class c LEFT JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'v'

pg_catalog.pg_matviews
SELECT n.nspname AS schemaname, c.relname AS matviewname, pg_get_userbyid(c.relowner) AS matviewowner,
       NULL::name AS tablespace, c.relhasindex AS hasindexes, c.relispopulated AS ispopulated,
       pg_get_viewdef(c.oid) AS definition
FROM pg_class c LEFT JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'm'

pg_catalog.pg_indexes
SELECT n.nspname AS schemaname, c.relname AS tablename, i.relname AS indexname, NULL::name AS tablespace,
       pg_get_indexdef(i.oid) AS indexdef
FROM pg_index x JOIN pg_class c ON c.oid = x.indrelid JOIN pg_class i ON i.oid = x.indexrelid
     LEFT JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'm', 'p') AND i.relkind IN ('i', 'I')

pg_catalog.pg_sequences
SELECT n.nspname AS schemaname, c.relname AS sequencename, pg_get_userbyid(c.relowner) AS sequenceowner,
       s.seqtypid::regtype AS data_type, s.seqstart AS start_value, s.seqmin AS min_value, s.seqmax AS max_value,
       s.seqincrement AS increment_by, s.seqcycle AS cycle, s.seqcache AS cache_size,
       pg_sequence_last_value(c.oid) AS last_value
FROM pg_sequence s JOIN pg_class c ON c.oid = s.seqrelid LEFT JOIN pg_namespace n ON n.oid = c.relnamespace

pg_catalog.pg_publication_tables
SELECT p.pubname, n.nspname AS schemaname, c.relname AS tablename,
       (SELECT array_agg(a.attname ORDER BY a.attnum) FROM pg_attribute a
        WHERE a.attrelid = g.relid AND a.attnum = ANY (g.attrs)) AS attnames,
       pg_get_expr(g.qual, g.relid) AS rowfilter
FROM pg_publication p, LATERAL pg_get_publication_tables(p.pubname::text) g (pubid, relid, attrs, qual),
     pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = g.relid

pg_catalog.pg_publication_sequences
SELECT p.pubname, n.nspname AS schemaname, c.relname AS sequencename
FROM pg_publication p, LATERAL pg_get_publication_sequences(p.pubname::text) g (relid),
     pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = g.relid

pg_catalog.pg_available_extensions
SELECT e.name, e.default_version, x.extversion, e.comment
FROM pg_available_extensions() e LEFT JOIN pg_extension x ON x.extname = e.name

pg_catalog.pg_available_extension_versions
SELECT e.name, e.version, x.extname IS NOT NULL, e.superuser, e.trusted, e.relocatable, e.schema, e.requires, e.comment
FROM pg_available_extension_versions() e LEFT JOIN pg_extension x ON x.extname = e.name AND x.extversion = e.version
