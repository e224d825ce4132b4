-- The views of information_schema that have rows here, as queries of our own (see views.sql). `b` is the type below a domain,
-- or the type itself.

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
WHERE c.relkind IN ('r', 'v', 'f', 'p') AND NOT pg_is_other_temp_schema(n.oid)
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
       CASE WHEN a.attnotnull OR t.typtype = 'd' AND t.typnotnull THEN 'NO' ELSE 'YES' END AS is_nullable,
       CASE WHEN b.typelem <> 0 AND b.typlen = -1 THEN 'ARRAY' WHEN bn.nspname = 'pg_catalog' THEN format_type(b.oid, NULL)
            ELSE 'USER-DEFINED' END AS data_type,
       information_schema._pg_char_max_length(b.oid, m.typmod) AS character_maximum_length,
       information_schema._pg_char_octet_length(b.oid, m.typmod) AS character_octet_length,
       information_schema._pg_numeric_precision(b.oid, m.typmod) AS numeric_precision,
       information_schema._pg_numeric_precision_radix(b.oid, m.typmod) AS numeric_precision_radix,
       information_schema._pg_numeric_scale(b.oid, m.typmod) AS numeric_scale,
       information_schema._pg_datetime_precision(b.oid, m.typmod) AS datetime_precision,
       information_schema._pg_interval_type(b.oid, m.typmod) AS interval_type, NULL::int AS interval_precision,
       NULL::name AS character_set_catalog, NULL::name AS character_set_schema, NULL::name AS character_set_name,
       CASE WHEN co.collname IS NOT NULL THEN current_database() END AS collation_catalog,
       cn.nspname AS collation_schema, co.collname AS collation_name,
       CASE WHEN t.typtype = 'd' THEN current_database() END AS domain_catalog,
       CASE WHEN t.typtype = 'd' THEN tn.nspname END AS domain_schema,
       CASE WHEN t.typtype = 'd' THEN t.typname END AS domain_name,
       current_database() AS udt_catalog, bn.nspname AS udt_schema, b.typname AS udt_name,
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
     JOIN pg_type t ON t.oid = a.atttypid
     JOIN pg_type b ON b.oid = CASE t.typtype WHEN 'd' THEN t.typbasetype ELSE t.oid END
     JOIN pg_namespace bn ON bn.oid = b.typnamespace
     CROSS JOIN LATERAL (SELECT CASE t.typtype WHEN 'd' THEN t.typtypmod ELSE a.atttypmod END) m (typmod)
     LEFT JOIN pg_namespace tn ON tn.oid = t.typnamespace
     LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
     LEFT JOIN (pg_collation co JOIN pg_namespace cn ON cn.oid = co.collnamespace)
            ON co.oid = a.attcollation AND (cn.nspname, co.collname) <> ('pg_catalog', 'default')
     LEFT JOIN pg_sequence s ON s.seqrelid = CASE WHEN a.attidentity <> '' THEN
          (SELECT dep.objid FROM pg_depend dep WHERE dep.refclassid = 1259 AND dep.refobjid = c.oid
                  AND dep.refobjsubid = a.attnum AND dep.classid = 1259 AND dep.deptype = 'i') END
WHERE a.attnum > 0 AND NOT a.attisdropped AND c.relkind IN ('r', 'v', 'f', 'p') AND NOT pg_is_other_temp_schema(n.oid)
  AND (pg_has_role(c.relowner, 'USAGE')
       OR has_column_privilege(c.oid, a.attnum, 'SELECT, INSERT, UPDATE, REFERENCES'))

information_schema.table_constraints
SELECT current_database() AS constraint_catalog, n.nspname AS constraint_schema, k.conname AS constraint_name,
       current_database() AS table_catalog, rn.nspname AS table_schema, r.relname AS table_name,
       CASE k.contype WHEN 'c' THEN 'CHECK' WHEN 'n' THEN 'CHECK' WHEN 'f' THEN 'FOREIGN KEY' WHEN 'p' THEN 'PRIMARY KEY' WHEN 'u' THEN 'UNIQUE'
            END AS constraint_type,
       CASE WHEN k.condeferrable THEN 'YES' ELSE 'NO' END AS is_deferrable,
       CASE WHEN k.condeferred THEN 'YES' ELSE 'NO' END AS initially_deferred,
       CASE WHEN pg_get_constraintdef(k.oid) LIKE '% NOT ENFORCED' THEN 'NO' ELSE 'YES' END AS enforced,
       CASE WHEN k.contype = 'u' THEN (SELECT CASE WHEN i.indnullsnotdistinct THEN 'NO' ELSE 'YES' END
                                       FROM pg_index i WHERE i.indexrelid = k.conindid) END AS nulls_distinct
FROM pg_constraint k JOIN pg_namespace n ON n.oid = k.connamespace JOIN pg_class r ON r.oid = k.conrelid
     JOIN pg_namespace rn ON rn.oid = r.relnamespace
WHERE k.contype NOT IN ('t', 'x') AND r.relkind IN ('r', 'p') AND NOT pg_is_other_temp_schema(rn.oid)
  AND (pg_has_role(r.relowner, 'USAGE')
       OR has_table_privilege(r.oid, 'INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER')
       OR has_any_column_privilege(r.oid, 'INSERT, UPDATE, REFERENCES'))
UNION ALL
SELECT current_database(), n.nspname, n.oid::text || '_' || r.oid::text || '_' || a.attnum::text || '_not_null',
       current_database(), n.nspname, r.relname, 'CHECK', 'NO', 'NO', 'YES', NULL
FROM pg_namespace n JOIN pg_class r ON r.relnamespace = n.oid JOIN pg_attribute a ON a.attrelid = r.oid
WHERE a.attnotnull AND a.attnum > 0 AND NOT a.attisdropped AND r.relkind IN ('r', 'p') AND NOT pg_is_other_temp_schema(n.oid)
  AND NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conrelid = r.oid AND k.contype = 'n' AND k.conkey[1] = a.attnum)
  AND (pg_has_role(r.relowner, 'USAGE')
       OR has_table_privilege(r.oid, 'INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER')
       OR has_any_column_privilege(r.oid, 'INSERT, UPDATE, REFERENCES'))

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
  AND NOT pg_is_other_temp_schema(rn.oid)
  AND (pg_has_role(r.relowner, 'USAGE') OR has_column_privilege(r.oid, a.attnum, 'SELECT, INSERT, UPDATE, REFERENCES'))

information_schema.referential_constraints
SELECT current_database() AS constraint_catalog, n.nspname AS constraint_schema, k.conname AS constraint_name,
       CASE WHEN pk.conname IS NOT NULL THEN current_database() END AS unique_constraint_catalog,
       pn.nspname AS unique_constraint_schema, pk.conname AS unique_constraint_name,
       CASE k.confmatchtype WHEN 'f' THEN 'FULL' WHEN 'p' THEN 'PARTIAL' WHEN 's' THEN 'NONE' END AS match_option,
       CASE k.confupdtype WHEN 'c' THEN 'CASCADE' WHEN 'n' THEN 'SET NULL' WHEN 'd' THEN 'SET DEFAULT'
            WHEN 'r' THEN 'RESTRICT' WHEN 'a' THEN 'NO ACTION' END AS update_rule,
       CASE k.confdeltype WHEN 'c' THEN 'CASCADE' WHEN 'n' THEN 'SET NULL' WHEN 'd' THEN 'SET DEFAULT'
            WHEN 'r' THEN 'RESTRICT' WHEN 'a' THEN 'NO ACTION' END AS delete_rule
FROM pg_constraint k JOIN pg_namespace n ON n.oid = k.connamespace JOIN pg_class r ON r.oid = k.conrelid
     LEFT JOIN pg_constraint pk ON pk.conindid = k.conindid AND pk.contype IN ('p', 'u') AND pk.conrelid = k.confrelid
     LEFT JOIN pg_namespace pn ON pn.oid = pk.connamespace
WHERE k.contype = 'f'
  AND (pg_has_role(r.relowner, 'USAGE')
       OR has_table_privilege(r.oid, 'INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER')
       OR has_any_column_privilege(r.oid, 'INSERT, UPDATE, REFERENCES'))

information_schema.check_constraints
SELECT current_database() AS constraint_catalog, n.nspname AS constraint_schema, k.conname AS constraint_name,
       pg_get_expr(k.conbin, k.conrelid) AS check_clause
FROM pg_constraint k JOIN pg_namespace n ON n.oid = k.connamespace LEFT JOIN pg_class r ON r.oid = k.conrelid
     LEFT JOIN pg_type t ON t.oid = k.contypid
WHERE k.contype = 'c' AND pg_has_role(coalesce(r.relowner, t.typowner), 'USAGE')
UNION ALL
SELECT current_database(), n.nspname, k.conname, coalesce(a.attname, 'VALUE') || ' IS NOT NULL'
FROM pg_constraint k JOIN pg_namespace n ON n.oid = k.connamespace LEFT JOIN pg_class r ON r.oid = k.conrelid
     LEFT JOIN pg_type t ON t.oid = k.contypid LEFT JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = k.conkey[1]
WHERE k.contype = 'n' AND (k.conrelid <> 0 OR current_setting('server_version_num')::int >= 180000)
  AND pg_has_role(coalesce(r.relowner, t.typowner), 'USAGE')
UNION ALL
SELECT current_database(), n.nspname, n.oid::text || '_' || r.oid::text || '_' || a.attnum::text || '_not_null',
       a.attname || ' IS NOT NULL'
FROM pg_namespace n JOIN pg_class r ON r.relnamespace = n.oid JOIN pg_attribute a ON a.attrelid = r.oid
WHERE a.attnotnull AND a.attnum > 0 AND NOT a.attisdropped AND r.relkind IN ('r', 'p') AND pg_has_role(r.relowner, 'USAGE')
  AND NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conrelid = r.oid AND k.contype = 'n' AND k.conkey[1] = a.attnum)

information_schema.sequences
SELECT current_database() AS sequence_catalog, n.nspname AS sequence_schema, c.relname AS sequence_name,
       format_type(s.seqtypid, NULL) AS data_type,
       CASE s.seqtypid WHEN 21 THEN 16 WHEN 23 THEN 32 ELSE 64 END AS numeric_precision, 2 AS numeric_precision_radix,
       0 AS numeric_scale, s.seqstart::text AS start_value, s.seqmin::text AS minimum_value, s.seqmax::text AS maximum_value,
       s.seqincrement::text AS increment, CASE WHEN s.seqcycle THEN 'YES' ELSE 'NO' END AS cycle_option
FROM pg_sequence s JOIN pg_class c ON c.oid = s.seqrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.classid = 1259 AND d.objid = c.oid AND d.deptype = 'i')
  AND NOT pg_is_other_temp_schema(n.oid)
  AND (pg_has_role(c.relowner, 'USAGE')
       OR CASE WHEN c.relkind = 'S' THEN has_sequence_privilege(c.oid, 'SELECT, UPDATE, USAGE') END)

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
       NULL, NULL, NULL, NULL, CASE WHEN p.prokind <> 'p' THEN '0' END,
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
       current_database(), nt.nspname, t.typname, NULL, NULL, NULL, NULL, x.n::text,
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

information_schema.domains
SELECT current_database() AS domain_catalog, n.nspname AS domain_schema, t.typname AS domain_name,
       CASE WHEN t.typelem <> 0 AND t.typlen = -1 THEN 'ARRAY' WHEN bn.nspname = 'pg_catalog' THEN format_type(b.oid, NULL)
            ELSE 'USER-DEFINED' END AS data_type,
       information_schema._pg_char_max_length(b.oid, t.typtypmod) AS character_maximum_length,
       information_schema._pg_char_octet_length(b.oid, t.typtypmod) AS character_octet_length,
       NULL::name AS character_set_catalog, NULL::name AS character_set_schema, NULL::name AS character_set_name,
       CASE WHEN co.collname IS NOT NULL THEN current_database() END AS collation_catalog,
       cn.nspname AS collation_schema, co.collname AS collation_name,
       information_schema._pg_numeric_precision(b.oid, t.typtypmod) AS numeric_precision,
       information_schema._pg_numeric_precision_radix(b.oid, t.typtypmod) AS numeric_precision_radix,
       information_schema._pg_numeric_scale(b.oid, t.typtypmod) AS numeric_scale,
       information_schema._pg_datetime_precision(b.oid, t.typtypmod) AS datetime_precision,
       information_schema._pg_interval_type(b.oid, t.typtypmod) AS interval_type, NULL::int AS interval_precision,
       t.typdefault AS domain_default, current_database() AS udt_catalog, bn.nspname AS udt_schema,
       b.typname AS udt_name, NULL::name AS scope_catalog, NULL::name AS scope_schema, NULL::name AS scope_name,
       NULL::int AS maximum_cardinality, '1' AS dtd_identifier
FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace JOIN pg_type b ON b.oid = t.typbasetype
     JOIN pg_namespace bn ON bn.oid = b.typnamespace
     LEFT JOIN (pg_collation co JOIN pg_namespace cn ON cn.oid = co.collnamespace)
            ON co.oid = t.typcollation AND (cn.nspname, co.collname) <> ('pg_catalog', 'default')
WHERE t.typtype = 'd' AND (pg_has_role(t.typowner, 'USAGE') OR has_type_privilege(t.oid, 'USAGE'))

information_schema.domain_constraints
SELECT current_database(), kn.nspname, k.conname, current_database(), n.nspname, t.typname,
       CASE WHEN k.condeferrable THEN 'YES' ELSE 'NO' END, CASE WHEN k.condeferred THEN 'YES' ELSE 'NO' END
FROM pg_constraint k JOIN pg_namespace kn ON kn.oid = k.connamespace JOIN pg_type t ON t.oid = k.contypid
     JOIN pg_namespace n ON n.oid = t.typnamespace
WHERE pg_has_role(t.typowner, 'USAGE') OR has_type_privilege(t.oid, 'USAGE')

information_schema.domain_udt_usage
SELECT current_database(), bn.nspname, b.typname, current_database(), n.nspname, t.typname
FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace JOIN pg_type b ON b.oid = t.typbasetype
     JOIN pg_namespace bn ON bn.oid = b.typnamespace
WHERE t.typtype = 'd' AND pg_has_role(b.typowner, 'USAGE')

information_schema.column_domain_usage
SELECT current_database(), tn.nspname, t.typname, current_database(), n.nspname, c.relname, a.attname
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
     JOIN pg_type t ON t.oid = a.atttypid JOIN pg_namespace tn ON tn.oid = t.typnamespace
WHERE t.typtype = 'd' AND c.relkind IN ('r', 'v', 'f', 'p') AND a.attnum > 0 AND NOT a.attisdropped
  AND pg_has_role(t.typowner, 'USAGE')

information_schema.column_udt_usage
SELECT current_database(), bn.nspname, b.typname, current_database(), n.nspname, c.relname, a.attname
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
     JOIN pg_type t ON t.oid = a.atttypid
     JOIN pg_type b ON b.oid = CASE t.typtype WHEN 'd' THEN t.typbasetype ELSE t.oid END
     JOIN pg_namespace bn ON bn.oid = b.typnamespace
WHERE c.relkind IN ('r', 'v', 'f', 'p') AND a.attnum > 0 AND NOT a.attisdropped AND pg_has_role(b.typowner, 'USAGE')

information_schema.attributes
SELECT current_database() AS udt_catalog, n.nspname AS udt_schema, c.relname AS udt_name, a.attname AS attribute_name,
       a.attnum::int AS ordinal_position, pg_get_expr(d.adbin, d.adrelid) AS attribute_default,
       CASE WHEN a.attnotnull OR t.typtype = 'd' AND t.typnotnull THEN 'NO' ELSE 'YES' END AS is_nullable,
       CASE WHEN b.typelem <> 0 AND b.typlen = -1 THEN 'ARRAY' WHEN bn.nspname = 'pg_catalog' THEN format_type(b.oid, NULL)
            ELSE 'USER-DEFINED' END AS data_type,
       information_schema._pg_char_max_length(b.oid, m.typmod) AS character_maximum_length,
       information_schema._pg_char_octet_length(b.oid, m.typmod) AS character_octet_length,
       NULL::name AS character_set_catalog, NULL::name AS character_set_schema, NULL::name AS character_set_name,
       CASE WHEN co.collname IS NOT NULL THEN current_database() END AS collation_catalog,
       cn.nspname AS collation_schema, co.collname AS collation_name,
       information_schema._pg_numeric_precision(b.oid, m.typmod) AS numeric_precision,
       information_schema._pg_numeric_precision_radix(b.oid, m.typmod) AS numeric_precision_radix,
       information_schema._pg_numeric_scale(b.oid, m.typmod) AS numeric_scale,
       information_schema._pg_datetime_precision(b.oid, m.typmod) AS datetime_precision,
       information_schema._pg_interval_type(b.oid, m.typmod) AS interval_type, NULL::int AS interval_precision,
       current_database() AS attribute_udt_catalog, bn.nspname AS attribute_udt_schema, b.typname AS attribute_udt_name,
       NULL::name AS scope_catalog, NULL::name AS scope_schema, NULL::name AS scope_name,
       NULL::int AS maximum_cardinality, a.attnum::text AS dtd_identifier, 'NO' AS is_derived_reference_attribute
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
     JOIN pg_type t ON t.oid = a.atttypid
     JOIN pg_type b ON b.oid = CASE t.typtype WHEN 'd' THEN t.typbasetype ELSE t.oid END
     JOIN pg_namespace bn ON bn.oid = b.typnamespace
     CROSS JOIN LATERAL (SELECT CASE t.typtype WHEN 'd' THEN t.typtypmod ELSE a.atttypmod END) m (typmod)
     LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
     LEFT JOIN (pg_collation co JOIN pg_namespace cn ON cn.oid = co.collnamespace)
            ON co.oid = a.attcollation AND (cn.nspname, co.collname) <> ('pg_catalog', 'default')
WHERE a.attnum > 0 AND NOT a.attisdropped AND c.relkind = 'c'
  AND (pg_has_role(c.relowner, 'USAGE') OR has_type_privilege(c.reltype, 'USAGE'))

information_schema.user_defined_types
SELECT current_database(), n.nspname, c.relname, 'STRUCTURED', 'YES', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
       NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_type t ON t.oid = c.reltype
WHERE c.relkind = 'c' AND (pg_has_role(t.typowner, 'USAGE') OR has_type_privilege(t.oid, 'USAGE'))

information_schema.data_type_privileges
SELECT current_database(), x.schema, x.name, x.type, x.dtd
FROM (SELECT udt_schema, udt_name, 'USER-DEFINED TYPE', dtd_identifier FROM information_schema.attributes
      UNION ALL SELECT table_schema, table_name, 'TABLE', dtd_identifier FROM information_schema.columns
      UNION ALL SELECT domain_schema, domain_name, 'DOMAIN', dtd_identifier FROM information_schema.domains
      UNION ALL SELECT specific_schema, specific_name, 'ROUTINE', dtd_identifier FROM information_schema.parameters
      UNION ALL SELECT specific_schema, specific_name, 'ROUTINE', dtd_identifier FROM information_schema.routines)
     x (schema, name, type, dtd)

information_schema.element_types
SELECT current_database(), n.nspname, x.name, x.type, x.dtd,
       CASE WHEN en.nspname = 'pg_catalog' THEN format_type(e.oid, NULL) ELSE 'USER-DEFINED' END,
       NULL, NULL, NULL, NULL, NULL, CASE WHEN co.collname IS NOT NULL THEN current_database() END, cn.nspname, co.collname,
       NULL, NULL, NULL, NULL, NULL, NULL,
       NULL, -- up to 17
       current_database(), en.nspname, e.typname, NULL, NULL, NULL, NULL, 'a' || x.dtd
FROM (SELECT c.relnamespace, c.relname, CASE WHEN c.relkind = 'c' THEN 'USER-DEFINED TYPE' ELSE 'TABLE' END,
             a.attnum::text, a.atttypid, a.attcollation
      FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
      WHERE c.relkind IN ('r', 'v', 'f', 'p', 'c') AND a.attnum > 0 AND NOT a.attisdropped
      UNION ALL
      SELECT t.typnamespace, t.typname, 'DOMAIN', '1', t.typbasetype, t.typcollation FROM pg_type t WHERE t.typtype = 'd'
      UNION ALL
      SELECT p.pronamespace, nameconcatoid(p.proname, p.oid), 'ROUTINE', u.n::text, u.type, 0::oid
      FROM pg_proc p CROSS JOIN LATERAL unnest(coalesce(p.proallargtypes, p.proargtypes::oid[])) WITH ORDINALITY u (type, n)
      UNION ALL
      SELECT p.pronamespace, nameconcatoid(p.proname, p.oid), 'ROUTINE', '0', p.prorettype, 0::oid FROM pg_proc p)
     x (namespace, name, type, dtd, typid, collation_oid)
     JOIN pg_namespace n ON n.oid = x.namespace JOIN pg_type t ON t.oid = x.typid AND t.typelem <> 0 AND t.typlen = -1
     JOIN pg_type e ON e.oid = t.typelem JOIN pg_namespace en ON en.oid = e.typnamespace
     LEFT JOIN (pg_collation co JOIN pg_namespace cn ON cn.oid = co.collnamespace)
            ON co.oid = x.collation_oid AND (cn.nspname, co.collname) <> ('pg_catalog', 'default')
WHERE (n.nspname, x.name, x.type, x.dtd)
      IN (SELECT object_schema, object_name, object_type, dtd_identifier FROM information_schema.data_type_privileges)

information_schema.constraint_column_usage
SELECT current_database(), x.table_schema, x.table_name, x.column_name, current_database(), x.schema, x.name
FROM (SELECT DISTINCT rn.nspname, r.relname, r.relowner, a.attname, kn.nspname, k.conname
      FROM pg_constraint k JOIN pg_namespace kn ON kn.oid = k.connamespace
           JOIN pg_depend d ON d.classid = 2606 AND d.objid = k.oid AND d.refclassid = 1259
           JOIN pg_class r ON r.oid = d.refobjid JOIN pg_namespace rn ON rn.oid = r.relnamespace
           JOIN pg_attribute a ON a.attrelid = r.oid AND a.attnum = d.refobjsubid
      WHERE k.contype = 'c' AND r.relkind IN ('r', 'p') AND NOT a.attisdropped
      UNION ALL
      SELECT rn.nspname, r.relname, r.relowner, a.attname, kn.nspname, k.conname
      FROM pg_constraint k JOIN pg_namespace kn ON kn.oid = k.connamespace
           JOIN pg_class r ON r.oid = CASE k.contype WHEN 'f' THEN k.confrelid ELSE k.conrelid END
           JOIN pg_namespace rn ON rn.oid = r.relnamespace
           JOIN pg_attribute a ON a.attrelid = r.oid
                AND a.attnum = ANY (CASE k.contype WHEN 'f' THEN k.confkey ELSE k.conkey END)
      WHERE k.contype IN ('p', 'u', 'f', 'n') AND r.relkind IN ('r', 'p') AND NOT a.attisdropped)
     x (table_schema, table_name, owner, column_name, schema, name)
WHERE pg_has_role(x.owner, 'USAGE')

information_schema.constraint_table_usage
SELECT current_database(), rn.nspname, r.relname, current_database(), kn.nspname, k.conname
FROM pg_constraint k JOIN pg_namespace kn ON kn.oid = k.connamespace
     JOIN pg_class r ON r.oid = CASE k.contype WHEN 'f' THEN k.confrelid ELSE k.conrelid END
     JOIN pg_namespace rn ON rn.oid = r.relnamespace
WHERE k.contype IN ('p', 'u', 'f') AND r.relkind IN ('r', 'p') AND pg_has_role(r.relowner, 'USAGE')

information_schema.check_constraint_routine_usage
SELECT DISTINCT current_database(), kn.nspname, k.conname, current_database(), n.nspname, nameconcatoid(p.proname, p.oid)
FROM pg_constraint k JOIN pg_namespace kn ON kn.oid = k.connamespace
     JOIN pg_depend d ON d.classid = 2606 AND d.objid = k.oid AND d.refclassid = 1255
     JOIN pg_proc p ON p.oid = d.refobjid JOIN pg_namespace n ON n.oid = p.pronamespace
WHERE k.contype = 'c' AND pg_has_role(p.proowner, 'USAGE')

information_schema.column_column_usage
SELECT DISTINCT current_database(), n.nspname, c.relname, a.attname, g.attname
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     JOIN pg_attribute g ON g.attrelid = c.oid AND g.attgenerated <> ''
     JOIN pg_attrdef f ON f.adrelid = c.oid AND f.adnum = g.attnum
     JOIN pg_depend d ON d.classid = 2604 AND d.objid = f.oid AND d.refclassid = 1259 AND d.refobjid = c.oid
     JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = d.refobjsubid AND a.attnum <> g.attnum
WHERE pg_has_role(c.relowner, 'USAGE')

information_schema.table_privileges
SELECT u.rolname, g.rolname, current_database(), n.nspname, c.relname, c.privilege,
       CASE WHEN pg_has_role(g.oid, c.relowner, 'USAGE') OR c.grantable THEN 'YES' ELSE 'NO' END,
       CASE WHEN c.privilege = 'SELECT' THEN 'YES' ELSE 'NO' END
FROM (SELECT relname, relnamespace, relkind, relowner, (aclexplode(coalesce(relacl, acldefault('r', relowner)))).*
      FROM pg_class) c (relname, relnamespace, relkind, relowner, grantor, grantee, privilege, grantable)
     JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_authid u ON u.oid = c.grantor
     JOIN (SELECT oid, rolname FROM pg_authid UNION ALL SELECT 0::oid, 'PUBLIC') g (oid, rolname) ON g.oid = c.grantee
WHERE c.relkind IN ('r', 'v', 'f', 'p')
  AND c.privilege IN ('INSERT', 'SELECT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER')
  AND (pg_has_role(u.oid, 'USAGE') OR pg_has_role(g.oid, 'USAGE') OR g.rolname = 'PUBLIC')

information_schema.role_table_grants
SELECT grantor, grantee, table_catalog, table_schema, table_name, privilege_type, is_grantable, with_hierarchy
FROM information_schema.table_privileges
WHERE grantor IN (SELECT role_name FROM information_schema.enabled_roles)
      OR grantee IN (SELECT role_name FROM information_schema.enabled_roles)

information_schema.column_privileges
SELECT u.rolname, g.rolname, current_database(), n.nspname, x.relname, x.attname, x.privilege,
       CASE WHEN pg_has_role(g.oid, x.relowner, 'USAGE') OR x.grantable THEN 'YES' ELSE 'NO' END
FROM (SELECT c.grantor, c.grantee, a.attname, c.relname, c.relnamespace, c.privilege, c.grantable, c.relowner
      FROM (SELECT oid, relname, relnamespace, relowner, (aclexplode(coalesce(relacl, acldefault('r', relowner)))).*
            FROM pg_class WHERE relkind IN ('r', 'v', 'f', 'p'))
           c (oid, relname, relnamespace, relowner, grantor, grantee, privilege, grantable)
           JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
      UNION
      SELECT a.grantor, a.grantee, a.attname, a.relname, a.relnamespace, a.privilege, a.grantable, a.relowner
      FROM (SELECT c.relname, c.relnamespace, c.relowner, a.attname, (aclexplode(a.attacl)).*
            FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
            WHERE a.attacl IS NOT NULL AND a.attnum > 0 AND NOT a.attisdropped AND c.relkind IN ('r', 'v', 'f', 'p'))
           a (relname, relnamespace, relowner, attname, grantor, grantee, privilege, grantable))
     x (grantor, grantee, attname, relname, relnamespace, privilege, grantable, relowner)
     JOIN pg_namespace n ON n.oid = x.relnamespace JOIN pg_authid u ON u.oid = x.grantor
     JOIN (SELECT oid, rolname FROM pg_authid UNION ALL SELECT 0::oid, 'PUBLIC') g (oid, rolname) ON g.oid = x.grantee
WHERE x.privilege IN ('INSERT', 'SELECT', 'UPDATE', 'REFERENCES')
  AND (pg_has_role(u.oid, 'USAGE') OR pg_has_role(g.oid, 'USAGE') OR g.rolname = 'PUBLIC')

information_schema.role_column_grants
SELECT grantor, grantee, table_catalog, table_schema, table_name, column_name, privilege_type, is_grantable
FROM information_schema.column_privileges
WHERE grantor IN (SELECT role_name FROM information_schema.enabled_roles)
      OR grantee IN (SELECT role_name FROM information_schema.enabled_roles)

information_schema.udt_privileges
SELECT u.rolname, g.rolname, current_database(), n.nspname, t.typname, 'TYPE USAGE',
       CASE WHEN pg_has_role(g.oid, t.typowner, 'USAGE') OR t.grantable THEN 'YES' ELSE 'NO' END
FROM (SELECT typname, typnamespace, typowner, (aclexplode(coalesce(typacl, acldefault('T', typowner)))).*
      FROM pg_type WHERE typtype = 'c') t (typname, typnamespace, typowner, grantor, grantee, privilege, grantable)
     JOIN pg_namespace n ON n.oid = t.typnamespace JOIN pg_authid u ON u.oid = t.grantor
     JOIN (SELECT oid, rolname FROM pg_authid UNION ALL SELECT 0::oid, 'PUBLIC') g (oid, rolname) ON g.oid = t.grantee
WHERE t.privilege = 'USAGE' AND (pg_has_role(u.oid, 'USAGE') OR pg_has_role(g.oid, 'USAGE') OR g.rolname = 'PUBLIC')

information_schema.role_udt_grants
SELECT grantor, grantee, udt_catalog, udt_schema, udt_name, privilege_type, is_grantable
FROM information_schema.udt_privileges
WHERE grantor IN (SELECT role_name FROM information_schema.enabled_roles)
      OR grantee IN (SELECT role_name FROM information_schema.enabled_roles)

information_schema.usage_privileges
SELECT u.rolname, 'PUBLIC', current_database(), n.nspname, c.collname, 'COLLATION', 'USAGE', 'NO'
FROM pg_collation c JOIN pg_namespace n ON n.oid = c.collnamespace JOIN pg_authid u ON u.oid = c.collowner
WHERE c.collencoding IN (-1, (SELECT encoding FROM pg_database WHERE datname = current_database()))
UNION ALL
SELECT u.rolname, g.rolname, current_database(), n.nspname, x.name, x.kind, 'USAGE',
       CASE WHEN pg_has_role(g.oid, x.owner, 'USAGE') OR x.grantable THEN 'YES' ELSE 'NO' END
FROM (SELECT typname, typnamespace, typowner, 'DOMAIN', (aclexplode(coalesce(typacl, acldefault('T', typowner)))).*
      FROM pg_type WHERE typtype = 'd'
      UNION ALL
      SELECT relname, relnamespace, relowner, 'SEQUENCE', (aclexplode(coalesce(relacl, acldefault('s', relowner)))).*
      FROM pg_class WHERE relkind = 'S') x (name, namespace, owner, kind, grantor, grantee, privilege, grantable)
     JOIN pg_namespace n ON n.oid = x.namespace JOIN pg_authid u ON u.oid = x.grantor
     JOIN (SELECT oid, rolname FROM pg_authid UNION ALL SELECT 0::oid, 'PUBLIC') g (oid, rolname) ON g.oid = x.grantee
WHERE x.privilege = 'USAGE' AND (pg_has_role(u.oid, 'USAGE') OR pg_has_role(g.oid, 'USAGE') OR g.rolname = 'PUBLIC')

information_schema.role_usage_grants
SELECT grantor, grantee, object_catalog, object_schema, object_name, object_type, privilege_type, is_grantable
FROM information_schema.usage_privileges
WHERE grantor IN (SELECT role_name FROM information_schema.enabled_roles)
      OR grantee IN (SELECT role_name FROM information_schema.enabled_roles)

information_schema.view_table_usage
SELECT DISTINCT current_database(), n.nspname, v.relname, current_database(), tn.nspname, t.relname
FROM pg_class v JOIN pg_namespace n ON n.oid = v.relnamespace JOIN pg_rewrite w ON w.ev_class = v.oid
     JOIN pg_depend d ON d.classid = 2618 AND d.objid = w.oid AND d.refclassid = 1259 AND d.refobjid <> v.oid
     JOIN pg_class t ON t.oid = d.refobjid JOIN pg_namespace tn ON tn.oid = t.relnamespace
WHERE v.relkind = 'v' AND t.relkind IN ('r', 'v', 'f', 'p') AND pg_has_role(t.relowner, 'USAGE')

information_schema.view_column_usage
SELECT DISTINCT current_database(), n.nspname, v.relname, current_database(), tn.nspname, t.relname, a.attname
FROM pg_class v JOIN pg_namespace n ON n.oid = v.relnamespace JOIN pg_rewrite w ON w.ev_class = v.oid
     JOIN pg_depend d ON d.classid = 2618 AND d.objid = w.oid AND d.refclassid = 1259 AND d.refobjid <> v.oid
     JOIN pg_class t ON t.oid = d.refobjid JOIN pg_namespace tn ON tn.oid = t.relnamespace
     JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = d.refobjsubid
WHERE v.relkind = 'v' AND t.relkind IN ('r', 'v', 'f', 'p') AND pg_has_role(t.relowner, 'USAGE')

information_schema.view_routine_usage
SELECT DISTINCT current_database(), n.nspname, v.relname, current_database(), pn.nspname, nameconcatoid(p.proname, p.oid)
FROM pg_class v JOIN pg_namespace n ON n.oid = v.relnamespace JOIN pg_rewrite w ON w.ev_class = v.oid
     JOIN pg_depend d ON d.classid = 2618 AND d.objid = w.oid AND d.refclassid = 1255
     JOIN pg_proc p ON p.oid = d.refobjid JOIN pg_namespace pn ON pn.oid = p.pronamespace
WHERE v.relkind = 'v' AND pg_has_role(p.proowner, 'USAGE')

information_schema.routine_routine_usage
SELECT DISTINCT current_database(), n.nspname, nameconcatoid(p.proname, p.oid),
       current_database(), un.nspname, nameconcatoid(u.proname, u.oid)
FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
     JOIN pg_depend d ON d.classid = 1255 AND d.objid = p.oid AND d.refclassid = 1255
     JOIN pg_proc u ON u.oid = d.refobjid JOIN pg_namespace un ON un.oid = u.pronamespace
WHERE p.prokind IN ('f', 'p') AND u.prokind IN ('f', 'p') AND pg_has_role(u.proowner, 'USAGE')

information_schema.routine_table_usage
SELECT DISTINCT current_database(), n.nspname, nameconcatoid(p.proname, p.oid), current_database(), n.nspname, p.proname,
       current_database(), tn.nspname, t.relname
FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
     JOIN pg_depend d ON d.classid = 1255 AND d.objid = p.oid AND d.refclassid = 1259
     JOIN pg_class t ON t.oid = d.refobjid JOIN pg_namespace tn ON tn.oid = t.relnamespace
WHERE p.prokind IN ('f', 'p') AND t.relkind IN ('r', 'v', 'f', 'p') AND pg_has_role(t.relowner, 'USAGE')

information_schema.routine_column_usage
SELECT DISTINCT current_database(), n.nspname, nameconcatoid(p.proname, p.oid), current_database(), n.nspname, p.proname,
       current_database(), tn.nspname, t.relname, a.attname
FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
     JOIN pg_depend d ON d.classid = 1255 AND d.objid = p.oid AND d.refclassid = 1259
     JOIN pg_class t ON t.oid = d.refobjid JOIN pg_namespace tn ON tn.oid = t.relnamespace
     JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = d.refobjsubid
WHERE p.prokind IN ('f', 'p') AND t.relkind IN ('r', 'v', 'f', 'p') AND pg_has_role(t.relowner, 'USAGE')

information_schema.routine_sequence_usage
SELECT DISTINCT current_database(), n.nspname, nameconcatoid(p.proname, p.oid), current_database(), n.nspname, p.proname,
       current_database(), sn.nspname, s.relname
FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
     JOIN pg_depend d ON d.classid = 1255 AND d.objid = p.oid AND d.refclassid = 1259
     JOIN pg_class s ON s.oid = d.refobjid JOIN pg_namespace sn ON sn.oid = s.relnamespace
WHERE p.prokind IN ('f', 'p') AND s.relkind = 'S' AND pg_has_role(s.relowner, 'USAGE')

information_schema.character_sets
SELECT NULL::name, NULL::name, e.name, CASE WHEN e.name = 'UTF8' THEN 'UCS' ELSE e.name END, e.name,
       current_database(), co.nspname, co.collname
FROM (SELECT pg_encoding_to_char(encoding), datcollate, datctype FROM pg_database WHERE datname = current_database())
     e (name, collate_name, ctype)
     LEFT JOIN (SELECT n.nspname, c.collname, c.collcollate, c.collctype
                FROM pg_collation c JOIN pg_namespace n ON n.oid = c.collnamespace) co
            ON co.collcollate = e.collate_name AND co.collctype = e.ctype
ORDER BY length(co.collname), co.collname LIMIT 1

information_schema.collations
SELECT current_database(), n.nspname, c.collname, 'NO PAD'
FROM pg_collation c JOIN pg_namespace n ON n.oid = c.collnamespace
WHERE c.collencoding IN (-1, (SELECT encoding FROM pg_database WHERE datname = current_database()))

information_schema.collation_character_set_applicability
SELECT current_database(), n.nspname, c.collname, NULL::name, NULL::name,
       pg_encoding_to_char((SELECT encoding FROM pg_database WHERE datname = current_database()))
FROM pg_collation c JOIN pg_namespace n ON n.oid = c.collnamespace
WHERE c.collencoding IN (-1, (SELECT encoding FROM pg_database WHERE datname = current_database()))

information_schema._pg_foreign_data_wrappers
SELECT w.oid, w.fdwowner, w.fdwoptions, current_database() AS foreign_data_wrapper_catalog,
       w.fdwname AS foreign_data_wrapper_name, u.rolname AS authorization_identifier,
       'c'::varchar AS foreign_data_wrapper_language
FROM pg_foreign_data_wrapper w JOIN pg_authid u ON u.oid = w.fdwowner WHERE pg_has_role(w.fdwowner, 'USAGE')

information_schema.foreign_data_wrappers
SELECT foreign_data_wrapper_catalog, foreign_data_wrapper_name, authorization_identifier, NULL::varchar AS library_name,
       foreign_data_wrapper_language
FROM information_schema._pg_foreign_data_wrappers

information_schema._pg_foreign_servers
SELECT s.oid, s.srvoptions, current_database() AS foreign_server_catalog, s.srvname AS foreign_server_name,
       current_database() AS foreign_data_wrapper_catalog, w.fdwname AS foreign_data_wrapper_name,
       s.srvtype AS foreign_server_type, s.srvversion AS foreign_server_version, u.rolname AS authorization_identifier
FROM pg_foreign_server s JOIN pg_foreign_data_wrapper w ON w.oid = s.srvfdw JOIN pg_authid u ON u.oid = s.srvowner
WHERE pg_has_role(s.srvowner, 'USAGE') OR has_server_privilege(s.oid, 'USAGE')

information_schema.foreign_servers
SELECT foreign_server_catalog, foreign_server_name, foreign_data_wrapper_catalog, foreign_data_wrapper_name,
       foreign_server_type, foreign_server_version, authorization_identifier
FROM information_schema._pg_foreign_servers

information_schema.foreign_server_options
SELECT s.foreign_server_catalog, s.foreign_server_name, o.option_name, o.option_value
FROM information_schema._pg_foreign_servers s, LATERAL pg_options_to_table(s.srvoptions) o

information_schema._pg_user_mappings
SELECT m.umid AS oid, m.umoptions, m.umuser, coalesce(u.rolname, 'PUBLIC') AS authorization_identifier,
       s.foreign_server_catalog, s.foreign_server_name, s.authorization_identifier AS srvowner
FROM pg_user_mappings m JOIN information_schema._pg_foreign_servers s ON s.oid = m.srvid
LEFT JOIN pg_authid u ON u.oid = m.umuser

information_schema.user_mappings
SELECT authorization_identifier, foreign_server_catalog, foreign_server_name FROM information_schema._pg_user_mappings

information_schema.user_mapping_options
SELECT m.authorization_identifier, m.foreign_server_catalog, m.foreign_server_name, o.option_name,
       CASE WHEN m.umuser <> 0 AND m.authorization_identifier = current_user
                 OR m.umuser = 0 AND pg_has_role(m.srvowner::name, 'USAGE')
                 OR (SELECT rolsuper FROM pg_authid WHERE rolname = current_user) THEN o.option_value END AS option_value
FROM information_schema._pg_user_mappings m JOIN pg_user_mapping p ON p.oid = m.oid,
     LATERAL pg_options_to_table(p.umoptions) o
