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

information_schema.information_schema_catalog_name
SELECT current_database() AS catalog_name

information_schema.enabled_roles
SELECT rolname AS role_name FROM pg_authid WHERE pg_has_role(oid, 'USAGE')

information_schema.applicable_roles
SELECT m.rolname AS grantee, r.rolname AS role_name, CASE WHEN a.admin_option THEN 'YES' ELSE 'NO' END AS is_grantable
FROM pg_auth_members a JOIN pg_authid m ON m.oid = a.member JOIN pg_authid r ON r.oid = a.roleid
WHERE pg_has_role(m.oid, 'USAGE')

information_schema.administrable_role_authorizations
SELECT grantee, role_name, is_grantable FROM information_schema.applicable_roles WHERE is_grantable = 'YES'

information_schema.schemata
SELECT current_database() AS catalog_name, n.nspname AS schema_name, u.rolname AS schema_owner,
       NULL::name AS default_character_set_catalog, NULL::name AS default_character_set_schema,
       NULL::name AS default_character_set_name, NULL::varchar AS sql_path
FROM pg_namespace n JOIN pg_authid u ON u.oid = n.nspowner
WHERE pg_has_role(n.nspowner, 'USAGE') OR has_schema_privilege(n.oid, 'CREATE, USAGE')

information_schema.tables
SELECT current_database() AS table_catalog, n.nspname AS table_schema, c.relname AS table_name,
       CASE WHEN c.relpersistence = 't' THEN 'LOCAL TEMPORARY' WHEN c.relkind IN ('r', 'p') THEN 'BASE TABLE'
            WHEN c.relkind = 'v' THEN 'VIEW' WHEN c.relkind = 'f' THEN 'FOREIGN' END AS table_type,
       NULL::name AS self_referencing_column_name, NULL::varchar AS reference_generation,
       NULL::name AS user_defined_type_catalog, NULL::name AS user_defined_type_schema,
       NULL::name AS user_defined_type_name,
       CASE WHEN c.relkind IN ('r', 'p') OR c.relkind = 'v' AND pg_relation_is_updatable(c.oid, false) & 8 = 8
            THEN 'YES' ELSE 'NO' END AS is_insertable_into, 'NO'::varchar AS is_typed,
       NULL::varchar AS commit_action
FROM pg_namespace n JOIN pg_class c ON c.relnamespace = n.oid
WHERE c.relkind IN ('r', 'v', 'f', 'p')
  AND (pg_has_role(c.relowner, 'USAGE')
       OR has_table_privilege(c.oid, 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER')
       OR has_any_column_privilege(c.oid, 'SELECT, INSERT, UPDATE, REFERENCES'))

information_schema.views
SELECT current_database() AS table_catalog, n.nspname AS table_schema, c.relname AS table_name,
       CASE WHEN pg_has_role(c.relowner, 'USAGE') THEN pg_get_viewdef(c.oid) END AS view_definition,
       CASE WHEN 'check_option=cascaded' = ANY (c.reloptions) THEN 'CASCADED'
            WHEN 'check_option=local' = ANY (c.reloptions) THEN 'LOCAL' ELSE 'NONE' END AS check_option,
       CASE WHEN pg_relation_is_updatable(c.oid, false) & 20 = 20 THEN 'YES' ELSE 'NO' END AS is_updatable,
       CASE WHEN pg_relation_is_updatable(c.oid, false) & 8 = 8 THEN 'YES' ELSE 'NO' END AS is_insertable_into,
       CASE WHEN EXISTS (SELECT FROM pg_trigger g WHERE g.tgrelid = c.oid AND g.tgtype & 81 = 81)
            THEN 'YES' ELSE 'NO' END AS is_trigger_updatable,
       CASE WHEN EXISTS (SELECT FROM pg_trigger g WHERE g.tgrelid = c.oid AND g.tgtype & 73 = 73)
            THEN 'YES' ELSE 'NO' END AS is_trigger_deletable,
       CASE WHEN EXISTS (SELECT FROM pg_trigger g WHERE g.tgrelid = c.oid AND g.tgtype & 69 = 69)
            THEN 'YES' ELSE 'NO' END AS is_trigger_insertable_into
FROM pg_namespace n JOIN pg_class c ON c.relnamespace = n.oid
WHERE c.relkind = 'v' AND (pg_has_role(c.relowner, 'USAGE') OR has_table_privilege(c.oid, 'SELECT'))

information_schema.columns
SELECT current_database() AS table_catalog, n.nspname AS table_schema, c.relname AS table_name, a.attname AS column_name,
       a.attnum::int AS ordinal_position,
       CASE WHEN a.attgenerated = '' THEN pg_get_expr(d.adbin, d.adrelid) END AS column_default,
       CASE WHEN a.attnotnull THEN 'NO' ELSE 'YES' END AS is_nullable,
       CASE WHEN t.typelem <> 0 AND t.typlen = -1 THEN 'ARRAY' WHEN tn.nspname = 'pg_catalog' THEN format_type(a.atttypid, NULL)
            ELSE 'USER-DEFINED' END AS data_type,
       CASE WHEN a.atttypid IN (1042, 1043) AND a.atttypmod <> -1 THEN a.atttypmod - 4
            WHEN a.atttypid IN (1560, 1562) AND a.atttypmod <> -1 THEN a.atttypmod END AS character_maximum_length,
       CASE WHEN a.atttypid IN (25, 1042, 1043) THEN
            CASE WHEN a.atttypmod = -1 OR a.atttypid = 25 THEN 1073741824 ELSE (a.atttypmod - 4) * 4 END
            END AS character_octet_length,
       CASE a.atttypid WHEN 21 THEN 16 WHEN 23 THEN 32 WHEN 20 THEN 64 WHEN 700 THEN 24 WHEN 701 THEN 53
            WHEN 1700 THEN CASE WHEN a.atttypmod <> -1 THEN ((a.atttypmod - 4) >> 16) & 65535 END END AS numeric_precision,
       CASE WHEN a.atttypid IN (20, 21, 23, 700, 701) THEN 2 WHEN a.atttypid = 1700 THEN 10 END AS numeric_precision_radix,
       CASE WHEN a.atttypid IN (20, 21, 23) THEN 0
            WHEN a.atttypid = 1700 AND a.atttypmod <> -1 THEN (a.atttypmod - 4) & 2047 END AS numeric_scale,
       CASE WHEN a.atttypid = 1082 THEN 0
            WHEN a.atttypid IN (1083, 1114, 1184, 1266) THEN CASE WHEN a.atttypmod < 0 THEN 6 ELSE a.atttypmod END
            WHEN a.atttypid = 1186 THEN CASE WHEN a.atttypmod < 0 OR (a.atttypmod & 65535) = 65535 THEN 6
                                             ELSE a.atttypmod & 65535 END END AS datetime_precision,
       CASE WHEN a.atttypid = 1186 THEN upper(substring(format_type(a.atttypid, a.atttypmod) from 'interval[()0-9]* #"%#"' for '#'))
            END AS interval_type,
       NULL::int AS interval_precision, NULL::name AS character_set_catalog, NULL::name AS character_set_schema,
       NULL::name AS character_set_name,
       CASE WHEN co.collname IS NOT NULL THEN current_database() END AS collation_catalog,
       CASE WHEN co.collname IS NOT NULL THEN 'pg_catalog' END AS collation_schema, co.collname AS collation_name,
       NULL::name AS domain_catalog, NULL::name AS domain_schema, NULL::name AS domain_name,
       current_database() AS udt_catalog, tn.nspname AS udt_schema, t.typname AS udt_name,
       NULL::name AS scope_catalog, NULL::name AS scope_schema, NULL::name AS scope_name,
       NULL::int AS maximum_cardinality, a.attnum::text AS dtd_identifier, 'NO'::varchar AS is_self_referencing,
       CASE WHEN a.attidentity IN ('a', 'd') THEN 'YES' ELSE 'NO' END AS is_identity,
       CASE a.attidentity WHEN 'a' THEN 'ALWAYS' WHEN 'd' THEN 'BY DEFAULT' END AS identity_generation,
       s.seqstart::text AS identity_start, s.seqincrement::text AS identity_increment, s.seqmax::text AS identity_maximum,
       s.seqmin::text AS identity_minimum, CASE WHEN s.seqcycle THEN 'YES' ELSE 'NO' END AS identity_cycle,
       CASE WHEN a.attgenerated <> '' THEN 'ALWAYS' ELSE 'NEVER' END AS is_generated,
       CASE WHEN a.attgenerated <> '' THEN pg_get_expr(d.adbin, d.adrelid) END AS generation_expression,
       CASE WHEN c.relkind IN ('r', 'p') OR c.relkind = 'v' AND pg_column_is_updatable(c.oid, a.attnum, false)
            THEN 'YES' ELSE 'NO' END AS is_updatable
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
     JOIN pg_type t ON t.oid = a.atttypid JOIN pg_namespace tn ON tn.oid = t.typnamespace
     LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
     LEFT JOIN pg_collation co ON co.oid = a.attcollation AND co.collname <> 'default'
     LEFT JOIN pg_depend dep ON dep.refclassid = 1259 AND dep.refobjid = c.oid AND dep.refobjsubid = a.attnum
                                AND dep.classid = 1259 AND dep.deptype = 'i' AND a.attidentity <> ''
     LEFT JOIN pg_sequence s ON s.seqrelid = dep.objid
WHERE a.attnum > 0 AND NOT a.attisdropped AND c.relkind IN ('r', 'v', 'f', 'p')
  AND (pg_has_role(c.relowner, 'USAGE')
       OR has_column_privilege(c.oid, a.attnum, 'SELECT, INSERT, UPDATE, REFERENCES'))

information_schema.table_constraints
SELECT current_database() AS constraint_catalog, n.nspname AS constraint_schema, k.conname AS constraint_name,
       current_database() AS table_catalog, rn.nspname AS table_schema, r.relname AS table_name,
       CASE k.contype WHEN 'c' THEN 'CHECK' WHEN 'f' THEN 'FOREIGN KEY' WHEN 'p' THEN 'PRIMARY KEY' WHEN 'u' THEN 'UNIQUE'
            END AS constraint_type,
       CASE WHEN k.condeferrable THEN 'YES' ELSE 'NO' END AS is_deferrable,
       CASE WHEN k.condeferred THEN 'YES' ELSE 'NO' END AS initially_deferred, 'YES'::varchar AS enforced,
       CASE WHEN k.contype = 'u' THEN (SELECT CASE WHEN i.indnullsnotdistinct THEN 'NO' ELSE 'YES' END
                                       FROM pg_index i WHERE i.indexrelid = k.conindid) END AS nulls_distinct
FROM pg_constraint k JOIN pg_namespace n ON n.oid = k.connamespace JOIN pg_class r ON r.oid = k.conrelid
     JOIN pg_namespace rn ON rn.oid = r.relnamespace
WHERE k.contype NOT IN ('t', 'x') AND r.relkind IN ('r', 'p')
UNION ALL
SELECT current_database(), n.nspname, n.oid::text || '_' || r.oid::text || '_' || a.attnum::text || '_not_null',
       current_database(), n.nspname, r.relname, 'CHECK', 'NO', 'NO', 'YES', NULL
FROM pg_namespace n JOIN pg_class r ON r.relnamespace = n.oid JOIN pg_attribute a ON a.attrelid = r.oid
WHERE a.attnotnull AND a.attnum > 0 AND NOT a.attisdropped AND r.relkind IN ('r', 'p')

information_schema.key_column_usage
SELECT current_database() AS constraint_catalog, n.nspname AS constraint_schema, k.conname AS constraint_name,
       current_database() AS table_catalog, rn.nspname AS table_schema, r.relname AS table_name, a.attname AS column_name,
       u.ord::int AS ordinal_position,
       CASE WHEN k.contype = 'f' THEN (SELECT p.ord::int FROM pg_constraint pk, unnest(pk.conkey) WITH ORDINALITY AS p (num, ord)
            WHERE pk.conindid = k.conindid AND pk.contype IN ('p', 'u') AND p.num = k.confkey[u.ord] LIMIT 1) END
            AS position_in_unique_constraint
FROM pg_constraint k JOIN pg_namespace n ON n.oid = k.connamespace JOIN pg_class r ON r.oid = k.conrelid
     JOIN pg_namespace rn ON rn.oid = r.relnamespace, unnest(k.conkey) WITH ORDINALITY AS u (num, ord), pg_attribute a
WHERE k.contype IN ('p', 'u', 'f') AND a.attrelid = k.conrelid AND a.attnum = u.num AND r.relkind IN ('r', 'p')

information_schema.referential_constraints
SELECT current_database() AS constraint_catalog, n.nspname AS constraint_schema, k.conname AS constraint_name,
       CASE WHEN pk.conname IS NOT NULL THEN current_database() END AS unique_constraint_catalog,
       pn.nspname AS unique_constraint_schema, pk.conname AS unique_constraint_name,
       CASE k.confmatchtype WHEN 'f' THEN 'FULL' WHEN 'p' THEN 'PARTIAL' WHEN 's' THEN 'NONE' END AS match_option,
       CASE k.confupdtype WHEN 'c' THEN 'CASCADE' WHEN 'n' THEN 'SET NULL' WHEN 'd' THEN 'SET DEFAULT'
            WHEN 'r' THEN 'RESTRICT' WHEN 'a' THEN 'NO ACTION' END AS update_rule,
       CASE k.confdeltype WHEN 'c' THEN 'CASCADE' WHEN 'n' THEN 'SET NULL' WHEN 'd' THEN 'SET DEFAULT'
            WHEN 'r' THEN 'RESTRICT' WHEN 'a' THEN 'NO ACTION' END AS delete_rule
FROM pg_constraint k JOIN pg_namespace n ON n.oid = k.connamespace
     LEFT JOIN pg_constraint pk ON pk.conindid = k.conindid AND pk.contype IN ('p', 'u') AND pk.conrelid = k.confrelid
     LEFT JOIN pg_namespace pn ON pn.oid = pk.connamespace
WHERE k.contype = 'f'

information_schema.check_constraints
SELECT current_database() AS constraint_catalog, n.nspname AS constraint_schema, k.conname AS constraint_name,
       pg_get_expr(k.conbin, k.conrelid) AS check_clause
FROM pg_constraint k JOIN pg_namespace n ON n.oid = k.connamespace WHERE k.contype = 'c'
UNION ALL
SELECT current_database(), n.nspname, n.oid::text || '_' || r.oid::text || '_' || a.attnum::text || '_not_null',
       a.attname || ' IS NOT NULL'
FROM pg_namespace n JOIN pg_class r ON r.relnamespace = n.oid JOIN pg_attribute a ON a.attrelid = r.oid
WHERE a.attnotnull AND a.attnum > 0 AND NOT a.attisdropped AND r.relkind IN ('r', 'p')

information_schema.sequences
SELECT current_database() AS sequence_catalog, n.nspname AS sequence_schema, c.relname AS sequence_name,
       format_type(s.seqtypid, NULL) AS data_type,
       CASE s.seqtypid WHEN 21 THEN 16 WHEN 23 THEN 32 ELSE 64 END AS numeric_precision, 2 AS numeric_precision_radix,
       0 AS numeric_scale, s.seqstart::text AS start_value, s.seqmin::text AS minimum_value, s.seqmax::text AS maximum_value,
       s.seqincrement::text AS increment, CASE WHEN s.seqcycle THEN 'YES' ELSE 'NO' END AS cycle_option
FROM pg_sequence s JOIN pg_class c ON c.oid = s.seqrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.classid = 1259 AND d.objid = c.oid AND d.deptype = 'i')

information_schema.triggers
SELECT current_database() AS trigger_catalog, n.nspname AS trigger_schema, t.tgname AS trigger_name,
       e.word::varchar AS event_manipulation, current_database() AS event_object_catalog,
       n.nspname AS event_object_schema, c.relname AS event_object_table,
       rank() OVER (PARTITION BY c.oid, e.bit, t.tgtype & 67 ORDER BY t.tgname)::int AS action_order,
       CASE WHEN pg_has_role(c.relowner, 'USAGE')
            THEN (regexp_match(pg_get_triggerdef(t.oid), '.{35,} WHEN \((.+)\) EXECUTE FUNCTION'))[1]
       END::varchar AS action_condition,
       (regexp_match(pg_get_triggerdef(t.oid), '^.{47,}?(EXECUTE FUNCTION.*)$'))[1]::varchar AS action_statement,
       CASE WHEN t.tgtype & 1 = 1 THEN 'ROW' ELSE 'STATEMENT' END::varchar AS action_orientation,
       CASE t.tgtype & 66 WHEN 2 THEN 'BEFORE' WHEN 64 THEN 'INSTEAD OF' ELSE 'AFTER' END::varchar AS action_timing,
       t.tgoldtable AS action_reference_old_table, t.tgnewtable AS action_reference_new_table,
       NULL::name AS action_reference_old_row, NULL::name AS action_reference_new_row,
       NULL::timestamptz AS created
FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_namespace n ON n.oid = c.relnamespace
     JOIN (VALUES (4, 'INSERT'), (8, 'DELETE'), (16, 'UPDATE')) e (bit, word) ON t.tgtype & e.bit <> 0
WHERE NOT t.tgisinternal AND NOT pg_is_other_temp_schema(n.oid)
  AND (pg_has_role(c.relowner, 'USAGE')
       OR has_table_privilege(c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER')
       OR has_any_column_privilege(c.oid, 'INSERT, UPDATE, REFERENCES'))

information_schema.triggered_update_columns
SELECT current_database() AS trigger_catalog, n.nspname AS trigger_schema, t.tgname AS trigger_name,
       current_database() AS event_object_catalog, n.nspname AS event_object_schema,
       c.relname AS event_object_table, a.attname AS event_object_column
FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_namespace n ON n.oid = c.relnamespace
     CROSS JOIN unnest(t.tgattr::int2[]) u (num) JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = u.num
WHERE NOT t.tgisinternal AND t.tgtype & 16 <> 0 AND NOT pg_is_other_temp_schema(n.oid)
  AND (pg_has_role(c.relowner, 'USAGE') OR has_column_privilege(c.oid, a.attnum, 'INSERT, UPDATE, REFERENCES'))

information_schema.routines
SELECT current_database(), n.nspname, nameconcatoid(p.proname, p.oid), current_database(), n.nspname, p.proname,
       CASE p.prokind WHEN 'f' THEN 'FUNCTION' WHEN 'p' THEN 'PROCEDURE' END,
       NULL, NULL, NULL, NULL, NULL, NULL,
       CASE WHEN p.prokind = 'p' THEN NULL WHEN t.typelem <> 0 AND t.typlen = -1 THEN 'ARRAY'
            WHEN nt.nspname = 'pg_catalog' THEN format_type(t.oid, NULL) ELSE 'USER-DEFINED' END,
       NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
       CASE WHEN nt.nspname IS NOT NULL THEN current_database() END, nt.nspname, t.typname,
       NULL, NULL, NULL, NULL, CASE WHEN p.prokind <> 'p' THEN 0 END,
       CASE WHEN l.lanname = 'sql' THEN 'SQL' ELSE 'EXTERNAL' END,
       CASE WHEN pg_has_role(p.proowner, 'USAGE') THEN p.prosrc END,
       CASE WHEN l.lanname = 'c' THEN p.prosrc END, upper(l.lanname), 'GENERAL',
       CASE WHEN p.provolatile = 'i' THEN 'YES' ELSE 'NO' END, 'MODIFIES',
       CASE WHEN p.prokind <> 'p' THEN CASE WHEN p.proisstrict THEN 'YES' ELSE 'NO' END END,
       NULL, 'YES', 0, NULL, NULL, CASE WHEN p.prosecdef THEN 'DEFINER' ELSE 'INVOKER' END,
       NULL, NULL, NULL, 'NO', NULL, NULL, NULL, 'NO',
       NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
       NULL, NULL, NULL, NULL, NULL
FROM pg_namespace n JOIN pg_proc p ON n.oid = p.pronamespace JOIN pg_language l ON p.prolang = l.oid
     LEFT JOIN (pg_type t JOIN pg_namespace nt ON t.typnamespace = nt.oid) ON p.prorettype = t.oid AND p.prokind <> 'p'
WHERE pg_has_role(p.proowner, 'USAGE') OR has_function_privilege(p.oid, 'EXECUTE')

information_schema.parameters
SELECT current_database(), n.nspname, nameconcatoid(p.proname, p.oid), x.n,
       CASE p.proargmodes[x.n] WHEN 'o' THEN 'OUT' WHEN 'b' THEN 'INOUT' WHEN 't' THEN 'OUT' ELSE 'IN' END, 'NO', 'NO',
       NULLIF(p.proargnames[x.n], ''),
       CASE WHEN t.typelem <> 0 AND t.typlen = -1 THEN 'ARRAY'
            WHEN nt.nspname = 'pg_catalog' THEN format_type(t.oid, NULL) ELSE 'USER-DEFINED' END,
       NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
       current_database(), nt.nspname, t.typname, NULL, NULL, NULL, NULL, x.n,
       CASE WHEN pg_has_role(p.proowner, 'USAGE') THEN pg_get_function_arg_default(p.oid, x.n::int) END
FROM pg_namespace n JOIN pg_proc p ON n.oid = p.pronamespace
     CROSS JOIN LATERAL unnest(coalesce(p.proallargtypes, p.proargtypes::oid[])) WITH ORDINALITY x (type, n)
     JOIN pg_type t ON t.oid = x.type JOIN pg_namespace nt ON t.typnamespace = nt.oid
WHERE pg_has_role(p.proowner, 'USAGE') OR has_function_privilege(p.oid, 'EXECUTE')

information_schema.routine_privileges
SELECT u.rolname, g.rolname, current_database(), n.nspname, nameconcatoid(p.proname, p.oid), current_database(), n.nspname,
       p.proname, p.prtype, CASE WHEN pg_has_role(g.oid, p.proowner, 'USAGE') OR p.grantable THEN 'YES' ELSE 'NO' END
FROM (SELECT p.oid, p.proname, p.proowner, p.pronamespace,
             (aclexplode(coalesce(p.proacl, acldefault('f', p.proowner)))).*
      FROM pg_proc p) p (oid, proname, proowner, pronamespace, grantor, grantee, prtype, grantable)
     JOIN pg_namespace n ON p.pronamespace = n.oid JOIN pg_authid u ON u.oid = p.grantor
     JOIN (SELECT oid, rolname FROM pg_authid UNION ALL SELECT 0::oid, 'PUBLIC') g (oid, rolname) ON g.oid = p.grantee
WHERE p.prtype = 'EXECUTE'
      AND (pg_has_role(u.oid, 'USAGE') OR pg_has_role(g.oid, 'USAGE') OR g.rolname = 'PUBLIC')

information_schema.role_routine_grants
SELECT grantor, grantee, specific_catalog, specific_schema, specific_name, routine_catalog, routine_schema, routine_name,
       privilege_type, is_grantable
FROM information_schema.routine_privileges
WHERE grantor IN (SELECT role_name FROM information_schema.enabled_roles)
      OR grantee IN (SELECT role_name FROM information_schema.enabled_roles)

pg_catalog.pg_user_mappings
SELECT u.oid, s.oid, s.srvname, u.umuser, coalesce(a.rolname, 'public'), u.umoptions
FROM pg_user_mapping u JOIN pg_foreign_server s ON s.oid = u.umserver LEFT JOIN pg_authid a ON a.oid = u.umuser

pg_catalog.pg_available_extensions
SELECT e.name, e.default_version, x.extversion, e.comment
FROM pg_available_extensions() e LEFT JOIN pg_extension x ON x.extname = e.name

pg_catalog.pg_available_extension_versions
SELECT e.name, e.version, x.extname IS NOT NULL, e.superuser, e.trusted, e.relocatable, e.schema, e.requires, e.comment
FROM pg_available_extension_versions() e LEFT JOIN pg_extension x ON x.extname = e.name AND x.extversion = e.version
