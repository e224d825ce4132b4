-- Questions to the catalog of the shape that drivers, ORMs and tools ask, each under the client's name.
-- Their schema is made by schema() in __init__.py.

-- asyncpg, types of an array of an enum
WITH RECURSIVE found (oid, schema, name, kind, base, element, delimiter, subtype, field_types, field_names, depth) AS (
  SELECT k.*, 0 FROM (
    SELECT t.oid, n.nspname, t.typname, t.typtype,
           CASE WHEN t.typtype = 'd' THEN (
             WITH RECURSIVE bases (oid, depth) AS (
               SELECT d.typbasetype, 0 FROM pg_type d WHERE d.oid = t.oid
               UNION ALL
               SELECT d.typbasetype, b.depth + 1 FROM pg_type d, bases b WHERE b.oid = d.oid AND d.typbasetype <> 0)
             SELECT oid FROM bases ORDER BY depth DESC LIMIT 1) END,
           t.typelem, e.typdelim, coalesce(r.rngsubtype, m.rngsubtype),
           CASE WHEN t.typtype = 'c' THEN (
             SELECT array_agg(a.atttypid ORDER BY a.attnum) FROM pg_attribute a JOIN pg_class c ON a.attrelid = c.oid
             WHERE a.attnum > 0 AND NOT a.attisdropped AND c.reltype = t.oid) END,
           CASE WHEN t.typtype = 'c' THEN (
             SELECT array_agg(a.attname::text ORDER BY a.attnum) FROM pg_attribute a JOIN pg_class c ON a.attrelid = c.oid
             WHERE a.attnum > 0 AND NOT a.attisdropped AND c.reltype = t.oid) END
    FROM pg_catalog.pg_type t
    JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
    LEFT JOIN pg_type e ON t.typlen = -1 AND t.typelem <> 0 AND t.typelem = e.oid
    LEFT JOIN pg_range r ON t.oid = r.rngtypid
    LEFT JOIN pg_range m ON t.oid = m.rngmultitypid) k (oid, schema, name, kind, base, element, delimiter, subtype, types, names)
  WHERE k.oid = ANY (ARRAY['mood[]'::regtype::oid])
  UNION ALL
  SELECT k.*, f.depth + 1 FROM (
    SELECT t.oid, n.nspname, t.typname, t.typtype,
           CASE WHEN t.typtype = 'd' THEN (
             WITH RECURSIVE bases (oid, depth) AS (
               SELECT d.typbasetype, 0 FROM pg_type d WHERE d.oid = t.oid
               UNION ALL
               SELECT d.typbasetype, b.depth + 1 FROM pg_type d, bases b WHERE b.oid = d.oid AND d.typbasetype <> 0)
             SELECT oid FROM bases ORDER BY depth DESC LIMIT 1) END,
           t.typelem, e.typdelim, coalesce(r.rngsubtype, m.rngsubtype),
           CASE WHEN t.typtype = 'c' THEN (
             SELECT array_agg(a.atttypid ORDER BY a.attnum) FROM pg_attribute a JOIN pg_class c ON a.attrelid = c.oid
             WHERE a.attnum > 0 AND NOT a.attisdropped AND c.reltype = t.oid) END,
           CASE WHEN t.typtype = 'c' THEN (
             SELECT array_agg(a.attname::text ORDER BY a.attnum) FROM pg_attribute a JOIN pg_class c ON a.attrelid = c.oid
             WHERE a.attnum > 0 AND NOT a.attisdropped AND c.reltype = t.oid) END
    FROM pg_catalog.pg_type t
    JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
    LEFT JOIN pg_type e ON t.typlen = -1 AND t.typelem <> 0 AND t.typelem = e.oid
    LEFT JOIN pg_range r ON t.oid = r.rngtypid
    LEFT JOIN pg_range m ON t.oid = m.rngmultitypid) k (oid, schema, name, kind, base, element, delimiter, subtype, types, names),
    found f
  WHERE (f.element IS NOT NULL AND k.oid = f.element) OR (f.field_types IS NOT NULL AND k.oid = ANY (f.field_types))
     OR (f.subtype IS NOT NULL AND k.oid = f.subtype) OR (f.base IS NOT NULL AND k.oid = f.base))
SELECT DISTINCT name, kind, depth, base::regtype::text, element::regtype::text, subtype::regtype::text, field_names
FROM found ORDER BY depth DESC, name;

-- Npgsql, all types
SELECT n.nspname, t.typname, t.typtype, t.typnotnull, t.element::regtype
FROM (
  SELECT t.oid, t.typnamespace, t.typname, t.typtype, t.typnotnull, t.relkind, e.oid AS element, e.typname AS element_name,
         ec.relkind AS element_relkind,
         CASE WHEN ep.proname = 'array_recv' THEN 'a' ELSE e.typtype END AS element_type
  FROM (
    SELECT t.oid, t.typnamespace, t.typname, t.typrelid, t.typnotnull, c.relkind, t.typelem,
           CASE WHEN p.proname = 'array_recv' THEN 'a' ELSE t.typtype END AS typtype,
           CASE WHEN p.proname = 'array_recv' THEN t.typelem
                WHEN t.typtype = 'r' THEN r.rngsubtype
                WHEN t.typtype = 'm' THEN (SELECT rngtypid FROM pg_range WHERE rngmultitypid = t.oid)
                WHEN t.typtype = 'd' THEN t.typbasetype END AS inner_type
    FROM pg_type t
    LEFT JOIN pg_class c ON c.oid = t.typrelid
    LEFT JOIN pg_proc p ON p.oid = t.typreceive
    LEFT JOIN pg_range r ON r.rngtypid = t.oid) t
  LEFT JOIN pg_type e ON e.oid = t.inner_type
  LEFT JOIN pg_class ec ON ec.oid = e.typrelid
  LEFT JOIN pg_proc ep ON ep.oid = e.typreceive) t
JOIN pg_namespace n ON n.oid = t.typnamespace
WHERE t.typtype IN ('b', 'r', 'm', 'e', 'd') OR (t.typtype = 'c' AND t.relkind = 'c')
   OR (t.typtype = 'p' AND t.typname IN ('record', 'void', 'unknown'))
   OR (t.typtype = 'a' AND (t.element_type IN ('b', 'r', 'm', 'e', 'd')
       OR (t.element_type = 'p' AND t.element_name IN ('record', 'void'))
       OR (t.element_type = 'c' AND t.element_relkind = 'c')))
ORDER BY CASE WHEN t.typtype IN ('b', 'e', 'p') THEN 0 WHEN t.typtype = 'c' THEN 1 WHEN t.typtype = 'r' THEN 2
              WHEN t.typtype = 'm' THEN 3 WHEN t.typtype = 'd' AND t.element_type <> 'a' THEN 4 WHEN t.typtype = 'a' THEN 5
              WHEN t.typtype = 'd' AND t.element_type = 'a' THEN 6 END, n.nspname, t.typname;

-- Npgsql, fields of composite types
SELECT t.typname, a.attname, a.atttypid::regtype
FROM pg_type t
JOIN pg_namespace n ON n.oid = t.typnamespace
JOIN pg_class c ON c.oid = t.typrelid
JOIN pg_attribute a ON a.attrelid = t.typrelid
WHERE t.typtype = 'c' AND c.relkind = 'c' AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY t.oid, a.attnum;

-- Npgsql, labels of enums
SELECT t.typname, e.enumlabel
FROM pg_enum e JOIN pg_type t ON t.oid = e.enumtypid JOIN pg_namespace n ON n.oid = t.typnamespace
ORDER BY t.oid, e.enumsortorder;

-- JDBC, getTables
SELECT n.nspname, c.relname,
       CASE WHEN n.nspname ~ '^pg_' OR n.nspname = 'information_schema' THEN
         CASE WHEN n.nspname IN ('pg_catalog', 'information_schema') THEN CASE c.relkind
           WHEN 'r' THEN 'SYSTEM TABLE' WHEN 'v' THEN 'SYSTEM VIEW' WHEN 'i' THEN 'SYSTEM INDEX' END END
       ELSE CASE c.relkind WHEN 'r' THEN 'TABLE' WHEN 'p' THEN 'PARTITIONED TABLE' WHEN 'i' THEN 'INDEX'
         WHEN 'S' THEN 'SEQUENCE' WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW' END END AS table_type,
       d.description
FROM pg_catalog.pg_namespace n, pg_catalog.pg_class c
LEFT JOIN pg_catalog.pg_description d ON c.oid = d.objoid AND d.objsubid = 0 AND d.classoid = 'pg_class'::regclass
WHERE c.relnamespace = n.oid AND n.nspname = 'public' AND c.relkind IN ('r', 'v', 'm', 'p')
ORDER BY table_type, nspname, relname;

-- JDBC, getColumns
SELECT * FROM (
  SELECT n.nspname, c.relname, a.attname, a.attnotnull OR (t.typtype = 'd' AND t.typnotnull) AS attnotnull, a.atttypmod, a.attlen,
         t.typtypmod, row_number() OVER (PARTITION BY a.attrelid ORDER BY a.attnum) AS attnum,
         nullif(a.attidentity, '') AS attidentity, nullif(a.attgenerated, '') AS attgenerated,
         pg_catalog.pg_get_expr(def.adbin, def.adrelid) AS adsrc, dsc.description, t.typtype
  FROM pg_catalog.pg_namespace n
  JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid
  JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid
  JOIN pg_catalog.pg_type t ON a.atttypid = t.oid
  LEFT JOIN pg_catalog.pg_attrdef def ON a.attrelid = def.adrelid AND a.attnum = def.adnum
  LEFT JOIN pg_catalog.pg_description dsc ON c.oid = dsc.objoid AND a.attnum = dsc.objsubid
  LEFT JOIN pg_catalog.pg_class dc ON dc.oid = dsc.classoid AND dc.relname = 'pg_class'
  LEFT JOIN pg_catalog.pg_namespace dn ON dc.relnamespace = dn.oid AND dn.nspname = 'pg_catalog'
  WHERE c.relkind IN ('r', 'p', 'v', 'f', 'm') AND a.attnum > 0 AND NOT a.attisdropped
    AND n.nspname LIKE 'public' AND c.relname LIKE '%') c
WHERE attname LIKE '%' ORDER BY nspname, c.relname, attnum;

-- JDBC, getPrimaryKeys
SELECT k.nspname, k.relname, k.attname, k.key_seq, k.pk_name
FROM (
  SELECT n.nspname, ct.relname, a.attname, (information_schema._pg_expandarray(i.indkey)).n AS key_seq, ci.relname AS pk_name,
         information_schema._pg_expandarray(i.indkey) AS keys, a.attnum
  FROM pg_catalog.pg_class ct
  JOIN pg_catalog.pg_attribute a ON ct.oid = a.attrelid
  JOIN pg_catalog.pg_namespace n ON ct.relnamespace = n.oid
  JOIN pg_catalog.pg_index i ON a.attrelid = i.indrelid
  JOIN pg_catalog.pg_class ci ON ci.oid = i.indexrelid
  WHERE n.nspname = 'public' AND ct.relname = 'item1' AND i.indisprimary) k
WHERE k.attnum = (k.keys).x ORDER BY k.relname, k.pk_name, k.key_seq;

-- JDBC, getImportedKeys
SELECT pkn.nspname, pkc.relname, pka.attname, fkn.nspname, fkc.relname, fka.attname, pos.n, con.confupdtype, con.confdeltype,
       con.conname, pkic.relname, con.condeferrable
FROM pg_catalog.pg_namespace pkn, pg_catalog.pg_class pkc, pg_catalog.pg_attribute pka, pg_catalog.pg_namespace fkn,
     pg_catalog.pg_class fkc, pg_catalog.pg_attribute fka, pg_catalog.pg_constraint con,
     pg_catalog.generate_series(1, 32) pos (n), pg_catalog.pg_class pkic
WHERE pkn.oid = pkc.relnamespace AND pkc.oid = pka.attrelid AND pka.attnum = con.confkey[pos.n] AND con.confrelid = pkc.oid
  AND fkn.oid = fkc.relnamespace AND fkc.oid = fka.attrelid AND fka.attnum = con.conkey[pos.n] AND con.conrelid = fkc.oid
  AND con.contype = 'f' AND (pkic.relkind = 'i' OR pkic.relkind = 'I') AND pkic.oid = con.conindid
  AND fkn.nspname = 'public' AND fkc.relname = 'item1'
ORDER BY pkn.nspname, pkc.relname, con.conname, pos.n;

-- JDBC, getIndexInfo
SELECT k.relname, k.non_unique, k.index_name, k.n, trim(BOTH '"' FROM pg_catalog.pg_get_indexdef(k.oid, k.n, false)) AS column_name,
       CASE k.amname WHEN 'btree' THEN CASE k.indoption[k.n - 1] & 1::smallint WHEN 1 THEN 'D' ELSE 'A' END END AS direction
FROM (
  SELECT ct.relname, NOT i.indisunique AS non_unique, ci.relname AS index_name,
         (information_schema._pg_expandarray(i.indkey)).n AS n, ci.oid, i.indoption, am.amname
  FROM pg_catalog.pg_class ct
  JOIN pg_catalog.pg_namespace n ON ct.relnamespace = n.oid
  JOIN pg_catalog.pg_index i ON ct.oid = i.indrelid
  JOIN pg_catalog.pg_class ci ON ci.oid = i.indexrelid
  JOIN pg_catalog.pg_am am ON ci.relam = am.oid
  WHERE n.nspname = 'public' AND ct.relname = 'item1') k
ORDER BY non_unique, index_name, n;

-- JDBC, getTypeInfo
SELECT t.typname FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON t.typnamespace = n.oid
WHERE n.nspname <> 'pg_toast'
  AND (t.typrelid = 0 OR (SELECT c.relkind = 'c' FROM pg_catalog.pg_class c WHERE c.oid = t.typrelid))
  AND t.typtype <> 'p' AND n.nspname = 'public' AND t.typelem = 0 ORDER BY t.typname;

-- JDBC, the SQL type of a type
SELECT t.typinput = 'pg_catalog.array_in'::regproc AS is_array, t.typtype, t.typname
FROM pg_catalog.pg_type t
LEFT JOIN (
  SELECT ns.oid AS nspoid, ns.nspname, r.r
  FROM pg_namespace ns
  JOIN (SELECT s.r, (current_schemas(false))[s.r] AS nspname
        FROM generate_series(1, array_upper(current_schemas(false), 1)) s (r)) r USING (nspname)) sp
  ON sp.nspoid = t.typnamespace
WHERE t.typname = 'mood' ORDER BY sp.r, t.oid DESC;

-- JDBC, getFunctions
SELECT n.nspname, p.proname, d.description,
       CASE WHEN format_type(p.prorettype, NULL) = 'unknown' THEN 0
            WHEN substring(pg_get_function_result(p.oid) FROM 0 FOR 6) IN ('TABLE', 'SETOF') THEN 2 ELSE 1 END AS function_type
FROM pg_catalog.pg_proc p
JOIN pg_catalog.pg_namespace n ON p.pronamespace = n.oid
LEFT JOIN pg_catalog.pg_description d ON p.oid = d.objoid
WHERE p.prokind = 'f' AND n.nspname LIKE 'app' AND p.proname LIKE '%'
ORDER BY nspname, proname, p.oid::text;

-- DBeaver, schemas
SELECT n.nspname, d.description FROM pg_catalog.pg_namespace n
LEFT JOIN pg_catalog.pg_description d ON d.objoid = n.oid AND d.objsubid = 0 AND d.classoid = 'pg_namespace'::regclass
WHERE n.nspname !~ '^pg_toast' ORDER BY n.nspname;

-- DBeaver, types
SELECT t.typname, c.relkind, format_type(nullif(t.typbasetype, 0), t.typtypmod) AS base, d.description
FROM pg_catalog.pg_type t
LEFT JOIN pg_catalog.pg_type e ON e.oid = t.typelem
LEFT JOIN pg_catalog.pg_class c ON c.oid = t.typrelid
LEFT JOIN pg_catalog.pg_description d ON t.oid = d.objoid
JOIN pg_namespace n ON n.oid = t.typnamespace
WHERE t.typname IS NOT NULL AND (c.relkind IS NULL OR c.relkind = 'c') AND (e.typcategory IS NULL OR e.typcategory <> 'C')
  AND n.nspname = 'public'
ORDER BY t.typname;

-- DBeaver, tables
SELECT c.relname, c.relkind, c.relnatts, d.description, pg_catalog.pg_get_expr(c.relpartbound, c.oid) AS bound,
       pg_catalog.pg_get_partkeydef(c.oid) AS key
FROM pg_catalog.pg_class c
LEFT JOIN pg_catalog.pg_description d ON d.objoid = c.oid AND d.objsubid = 0 AND d.classoid = 'pg_class'::regclass
WHERE c.relnamespace = 'public'::regnamespace AND c.relkind NOT IN ('i', 'I', 'c')
ORDER BY c.relname;

-- DBeaver, columns of a table
SELECT c.relname, a.attname, a.attnum, pg_catalog.pg_get_expr(ad.adbin, ad.adrelid, true) AS value, d.description, dep.objid IS NULL
FROM pg_catalog.pg_attribute a
JOIN pg_catalog.pg_class c ON a.attrelid = c.oid
LEFT JOIN pg_catalog.pg_attrdef ad ON a.attrelid = ad.adrelid AND a.attnum = ad.adnum
LEFT JOIN pg_catalog.pg_description d ON c.oid = d.objoid AND a.attnum = d.objsubid
LEFT JOIN pg_depend dep ON dep.refobjid = a.attrelid AND dep.deptype = 'i' AND dep.refobjsubid = a.attnum AND dep.classid = dep.refclassid
WHERE NOT a.attisdropped AND c.relkind NOT IN ('i', 'I', 'c') AND c.oid = 'customer'::regclass
ORDER BY a.attnum;

-- DBeaver, columns of a schema
SELECT c.relname, a.attname, a.attnum, pg_catalog.pg_get_expr(ad.adbin, ad.adrelid, true) AS value, d.description, dep.objid IS NULL
FROM pg_catalog.pg_attribute a
JOIN pg_catalog.pg_class c ON a.attrelid = c.oid
LEFT JOIN pg_catalog.pg_attrdef ad ON a.attrelid = ad.adrelid AND a.attnum = ad.adnum
LEFT JOIN pg_catalog.pg_description d ON c.oid = d.objoid AND a.attnum = d.objsubid
LEFT JOIN pg_depend dep ON dep.refobjid = a.attrelid AND dep.deptype = 'i' AND dep.refobjsubid = a.attnum AND dep.classid = dep.refclassid
WHERE NOT a.attisdropped AND a.attnum > 0 AND c.relkind NOT IN ('i', 'I', 'c') AND c.relnamespace = 'app'::regnamespace
ORDER BY c.relname, a.attnum;

-- DBeaver, constraints of a schema
SELECT c.conname, c.contype, t.relname, r.relname, d.description,
       CASE WHEN c.contype = 'c' THEN substring(pg_get_constraintdef(c.oid), 7) END AS expression
FROM pg_catalog.pg_constraint c
JOIN pg_catalog.pg_class t ON t.oid = c.conrelid
LEFT JOIN pg_catalog.pg_class r ON r.oid = c.confrelid
LEFT JOIN pg_catalog.pg_description d ON d.objoid = c.oid AND d.objsubid = 0 AND d.classoid = 'pg_constraint'::regclass
WHERE t.relnamespace = 'app'::regnamespace AND c.contype IN ('p', 'u', 'f', 'c')
ORDER BY t.relname, c.conname;

-- DBeaver, indexes of a schema
SELECT i.indkey, c.relname, tc.relname, d.description, pg_catalog.pg_get_expr(i.indpred, i.indrelid) AS predicate,
       pg_catalog.pg_get_expr(i.indexprs, i.indrelid, true) AS expressions,
       pg_catalog.pg_relation_size(i.indexrelid) >= 0, pg_catalog.pg_stat_get_numscans(i.indexrelid) >= 0
FROM pg_catalog.pg_index i
JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid
JOIN pg_catalog.pg_class tc ON tc.oid = i.indrelid
LEFT JOIN pg_catalog.pg_description d ON i.indexrelid = d.objoid
WHERE tc.relnamespace = 'app'::regnamespace
ORDER BY tc.relname, c.relname;

-- DBeaver, sizes of tables
SELECT c.relname, pg_catalog.pg_total_relation_size(c.oid) >= 0, pg_catalog.pg_relation_size(c.oid) >= 0
FROM pg_catalog.pg_class c WHERE c.relnamespace = 'app'::regnamespace AND c.relkind IN ('r', 'm') ORDER BY c.relname;

-- DBeaver, functions
SELECT p.proname, pg_catalog.pg_get_expr(p.proargdefaults, 0) AS defaults, l.lanname, d.description
FROM pg_catalog.pg_proc p
LEFT JOIN pg_catalog.pg_language l ON p.prolang = l.oid
LEFT JOIN pg_catalog.pg_description d ON p.oid = d.objoid
WHERE p.pronamespace = 'app'::regnamespace ORDER BY p.proname;

-- DBeaver, references to a table
SELECT c.conname, t.relname, rt.relname
FROM pg_catalog.pg_constraint c
JOIN pg_catalog.pg_class t ON t.oid = c.conrelid
JOIN pg_catalog.pg_class rt ON rt.oid = c.confrelid
WHERE c.confrelid = 'customer'::regclass AND c.contype = 'f' ORDER BY c.conname, t.relname;

-- Metabase, tables
SELECT n.nspname AS schema, c.relname AS name, c.relkind, d.description
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON c.relnamespace = n.oid
LEFT JOIN pg_catalog.pg_description d ON c.oid = d.objoid AND d.objsubid = 0 AND d.classoid = 'pg_class'::regclass
WHERE n.nspname !~ '^pg_' AND n.nspname <> 'information_schema' AND c.relkind IN ('r', 'p', 'v', 'f', 'm')
  AND n.nspname IN ('public', 'app')
ORDER BY 3, 1, 2;

-- Metabase, fields
SELECT c.column_name AS name,
       CASE WHEN c.udt_schema IN ('public', 'pg_catalog') THEN format('%s', c.udt_name) ELSE format('"%s"."%s"', c.udt_schema, c.udt_name) END
         AS database_type,
       c.ordinal_position - 1 AS position, c.table_schema, c.table_name, pk.column_name IS NOT NULL AS is_key,
       col_description(CAST(CAST(format('%I.%I', CAST(c.table_schema AS text), CAST(c.table_name AS text)) AS regclass) AS oid),
                       c.ordinal_position) AS comment,
       (c.column_default IS NULL OR lower(c.column_default) = 'null') AND c.is_nullable = 'NO'
         AND NOT ((c.column_default IS NOT NULL AND c.column_default LIKE '%nextval(%') OR c.is_identity <> 'NO') AS required,
       (c.column_default IS NOT NULL AND c.column_default LIKE '%nextval(%') OR c.is_identity <> 'NO' AS increments
FROM information_schema.columns c
LEFT JOIN (
  SELECT tc.table_schema, tc.table_name, kc.column_name
  FROM information_schema.table_constraints tc
  JOIN information_schema.key_column_usage kc
    ON tc.constraint_name = kc.constraint_name AND tc.table_schema = kc.table_schema AND tc.table_name = kc.table_name
  WHERE tc.constraint_type = 'PRIMARY KEY') pk
  ON c.table_schema = pk.table_schema AND c.table_name = pk.table_name AND c.column_name = pk.column_name
WHERE c.table_schema !~ '^information_schema|catalog_history|pg_' AND c.table_schema IN ('public', 'app')
UNION ALL
SELECT a.attname, CASE WHEN tn.nspname IN ('public', 'pg_catalog') THEN format('%s', t.typname) ELSE format('"%s"."%s"', tn.nspname, t.typname) END,
       a.attnum - 1, n.nspname, c.relname, false, NULL, false, false
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid
JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
JOIN pg_catalog.pg_namespace tn ON tn.oid = t.typnamespace
WHERE c.relkind = 'm' AND a.attnum >= 1 AND n.nspname !~ '^information_schema|catalog_history|pg_' AND n.nspname IN ('public', 'app')
ORDER BY 4, 5, 3;

-- Metabase, foreign keys
SELECT fn.nspname, f.relname, fa.attname, pn.nspname, p.relname, pa.attname
FROM pg_constraint c
JOIN pg_class f ON c.conrelid = f.oid
JOIN pg_namespace fn ON c.connamespace = fn.oid
JOIN pg_attribute fa ON c.conrelid = fa.attrelid
JOIN pg_class p ON c.confrelid = p.oid
JOIN pg_namespace pn ON p.relnamespace = pn.oid
JOIN pg_attribute pa ON c.confrelid = pa.attrelid
WHERE fn.nspname !~ '^information_schema|catalog_history|pg_' AND c.contype = 'f'
  AND fa.attnum = ANY (c.conkey) AND pa.attnum = ANY (c.confkey)
ORDER BY 1, 2, 3, 4, 5, 6;

-- Metabase, privileges
WITH privileges AS (
  SELECT t.schema, t.name,
         pg_catalog.has_any_column_privilege(current_user, quote_ident(t.schema) || '.' || quote_ident(t.name), 'update') AS may_update,
         pg_catalog.has_any_column_privilege(current_user, quote_ident(t.schema) || '.' || quote_ident(t.name), 'select') AS may_select,
         pg_catalog.has_any_column_privilege(current_user, quote_ident(t.schema) || '.' || quote_ident(t.name), 'insert') AS may_insert,
         pg_catalog.has_table_privilege(current_user, quote_ident(t.schema) || '.' || quote_ident(t.name), 'delete') AS may_delete
  FROM (SELECT schemaname AS schema, tablename AS name FROM pg_catalog.pg_tables
        UNION SELECT schemaname, viewname FROM pg_catalog.pg_views
        UNION SELECT schemaname, matviewname FROM pg_catalog.pg_matviews) t
  WHERE t.schema !~ '^pg_' AND t.schema <> 'information_schema' AND pg_catalog.has_schema_privilege(current_user, t.schema, 'usage'))
SELECT * FROM privileges WHERE may_update OR may_select OR may_insert OR may_delete ORDER BY 1, 2;

-- Metabase, labels of enums
SELECT n.nspname, t.typname, e.enumlabel FROM pg_type t JOIN pg_enum e ON t.oid = e.enumtypid
JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace WHERE n.nspname IN (SELECT unnest(current_schemas(false)))
ORDER BY 1, 2, e.enumsortorder;

-- Grafana, tables
SELECT CASE WHEN quote_ident(table_schema) IN (
              SELECT CASE WHEN trim(s[i]) = '"$user"' THEN user ELSE trim(s[i]) END
              FROM generate_series(array_lower(string_to_array(current_setting('search_path'), ','), 1),
                                   array_upper(string_to_array(current_setting('search_path'), ','), 1)) AS i,
                   string_to_array(current_setting('search_path'), ',') s)
            THEN quote_ident(table_name) ELSE quote_ident(table_schema) || '.' || quote_ident(table_name) END AS "table"
FROM information_schema.tables
WHERE quote_ident(table_schema) NOT IN ('information_schema', 'pg_catalog') ORDER BY 1;

-- Grafana, columns of a table
SELECT quote_ident(column_name) AS "column", data_type AS type
FROM information_schema.columns
WHERE CASE WHEN array_length(parse_ident('item1'), 1) = 2
        THEN quote_ident(table_schema) = (parse_ident('item1'))[1] AND quote_ident(table_name) = (parse_ident('item1'))[2]
        ELSE quote_ident(table_name) = 'item1' AND quote_ident(table_schema) IN (
          SELECT CASE WHEN trim(s[i]) = '"$user"' THEN user ELSE trim(s[i]) END
          FROM generate_series(array_lower(string_to_array(current_setting('search_path'), ','), 1),
                               array_upper(string_to_array(current_setting('search_path'), ','), 1)) AS i,
               string_to_array(current_setting('search_path'), ',') s) END;

-- Grafana, a table with a time and a value
SELECT quote_ident(table_name) AS table_name,
       (SELECT quote_ident(column_name) FROM information_schema.columns c
        WHERE c.table_schema = t.table_schema AND c.table_name = t.table_name AND udt_name IN ('timestamptz', 'timestamp')
        ORDER BY ordinal_position LIMIT 1) AS time_column,
       (SELECT quote_ident(column_name) FROM information_schema.columns c
        WHERE c.table_schema = t.table_schema AND c.table_name = t.table_name AND udt_name IN ('numeric', 'float8')
        ORDER BY ordinal_position LIMIT 1) AS value_column
FROM information_schema.tables t
WHERE t.table_schema = 'public'
  AND EXISTS (SELECT 1 FROM information_schema.columns c WHERE c.table_schema = t.table_schema AND c.table_name = t.table_name
              AND udt_name IN ('timestamptz', 'timestamp'))
  AND EXISTS (SELECT 1 FROM information_schema.columns c WHERE c.table_schema = t.table_schema AND c.table_name = t.table_name
              AND udt_name IN ('numeric', 'float8'))
ORDER BY 1 LIMIT 1;

-- dbt, catalog
SELECT sch.nspname AS table_schema, tbl.relname AS table_name,
       CASE tbl.relkind WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW' ELSE 'BASE TABLE' END AS table_type,
       td.description AS table_comment, col.attname AS column_name, col.attnum AS column_index,
       pg_catalog.format_type(col.atttypid, col.atttypmod) AS column_type, cd.description AS column_comment,
       pg_get_userbyid(tbl.relowner) AS table_owner
FROM pg_catalog.pg_namespace sch
JOIN pg_catalog.pg_class tbl ON tbl.relnamespace = sch.oid
JOIN pg_catalog.pg_attribute col ON col.attrelid = tbl.oid
LEFT JOIN pg_catalog.pg_description td ON td.objoid = tbl.oid AND td.objsubid = 0
LEFT JOIN pg_catalog.pg_description cd ON cd.objoid = tbl.oid AND cd.objsubid = col.attnum
WHERE (upper(sch.nspname) = upper('public') OR upper(sch.nspname) = upper('app'))
  AND NOT pg_is_other_temp_schema(sch.oid) AND tbl.relpersistence IN ('p', 'u') AND tbl.relkind IN ('r', 'v', 'f', 'p', 'm')
  AND col.attnum > 0 AND NOT col.attisdropped
ORDER BY sch.nspname, tbl.relname, col.attnum;

-- dbt, relations
SELECT DISTINCT dn.nspname, d.relname, rn.nspname, r.relname
FROM pg_class d
JOIN pg_namespace dn ON dn.oid = d.relnamespace
JOIN pg_depend dd ON dd.refobjid = d.oid AND dd.classid = 'pg_rewrite'::regclass AND dd.refclassid = 'pg_class'::regclass AND dd.deptype = 'i'
JOIN pg_depend jd ON jd.objid = dd.objid AND jd.classid = 'pg_rewrite'::regclass AND jd.refclassid = 'pg_class'::regclass
  AND jd.refobjid <> dd.refobjid
JOIN pg_class r ON r.oid = jd.refobjid
JOIN pg_namespace rn ON rn.oid = r.relnamespace AND rn.nspname <> 'information_schema' AND rn.nspname NOT LIKE 'pg\_%'
ORDER BY 1, 2, 3, 4;

-- dbt, names
SELECT 'postgres' AS database, tablename AS name, schemaname AS schema, 'table' AS type FROM pg_tables WHERE schemaname ILIKE 'app'
UNION ALL SELECT 'postgres', viewname, schemaname, 'view' FROM pg_views WHERE schemaname ILIKE 'app'
UNION ALL SELECT 'postgres', matviewname, schemaname, 'materialized_view' FROM pg_matviews WHERE schemaname ILIKE 'app'
UNION ALL SELECT DISTINCT 'postgres', proname, n.nspname, 'function' FROM pg_proc JOIN pg_namespace n ON pronamespace = n.oid
  WHERE n.nspname ILIKE 'app'
ORDER BY 4, 3, 2;

-- dbt, columns of a relation
SELECT column_name, data_type, character_maximum_length, numeric_precision, numeric_scale
FROM information_schema.columns WHERE table_name = 'item1' AND table_schema = 'public' ORDER BY ordinal_position;

-- dbt, grants
SELECT grantee, privilege_type FROM information_schema.role_table_grants
WHERE grantor = current_role AND grantee <> current_role AND table_schema = 'public' AND table_name = 'item1';

-- dbt, indexes of a table
SELECT i.relname AS name, m.amname AS method, x.indisunique, array_to_string(array_agg(a.attname), ',') AS columns
FROM pg_index x
JOIN pg_class i ON i.oid = x.indexrelid
JOIN pg_am m ON m.oid = i.relam
JOIN pg_class t ON t.oid = x.indrelid
JOIN pg_namespace n ON n.oid = t.relnamespace
JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = ANY (x.indkey)
WHERE t.relname = 'item1' AND n.nspname = 'public' AND t.relkind IN ('r', 'm')
GROUP BY 1, 2, 3 ORDER BY 1, 2, 3;

-- SQLAlchemy, columns
SELECT a.attname, format_type(a.atttypid, a.atttypmod),
       CASE WHEN a.atthasdef THEN (SELECT pg_get_expr(d.adbin, d.adrelid) FROM pg_attrdef d
                                   WHERE a.atthasdef AND d.adrelid = a.attrelid AND d.adnum = a.attnum) END AS value,
       a.attnotnull, c.relname, ds.description, a.attgenerated,
       CASE WHEN a.attidentity <> '' THEN (
         SELECT json_build_object('always', a.attidentity = 'a', 'start', s.seqstart, 'increment', s.seqincrement) FROM pg_sequence s
         WHERE a.attidentity <> ''
           AND s.seqrelid = CAST(CAST(pg_get_serial_sequence(CAST(CAST(a.attrelid AS regclass) AS text), a.attname) AS regclass) AS oid)) END
       AS identity,
       CASE WHEN a.attcollation <> 0 AND (SELECT t.typcollation FROM pg_type t WHERE t.oid = a.atttypid) <> a.attcollation
         THEN (SELECT co.collname FROM pg_collation co WHERE co.oid = a.attcollation) END AS collation
FROM pg_class c
LEFT JOIN pg_attribute a ON c.oid = a.attrelid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_description ds ON ds.objoid = a.attrelid AND ds.objsubid = a.attnum
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = ANY (ARRAY['r', 'p', 'f', 'v', 'm']) AND n.nspname = 'public'
ORDER BY c.relname, a.attnum;

-- SQLAlchemy, keys
SELECT k.relname, array_agg(CAST(k.attname AS text) ORDER BY k.ord) AS cols, k.conname
FROM (
  SELECT c.conrelid, r.relname, c.conname, c.ord, a.attname
  FROM (SELECT conrelid, conname, unnest(conkey) AS attnum, generate_subscripts(conkey, 1) AS ord
        FROM pg_constraint WHERE contype = 'p') c
  JOIN pg_attribute a ON a.attnum = c.attnum AND a.attrelid = c.conrelid
  JOIN pg_class r ON r.oid = c.conrelid AND r.relnamespace = 'public'::regnamespace) k
GROUP BY k.relname, k.conname ORDER BY k.relname, k.conname;

-- SQLAlchemy, foreign keys
SELECT c.relname, k.conname, CASE WHEN k.oid IS NOT NULL THEN pg_get_constraintdef(k.oid, true) END, fn.nspname
FROM pg_class c
LEFT JOIN pg_constraint k ON c.oid = k.conrelid AND k.contype = 'f'
LEFT JOIN pg_class f ON f.oid = k.confrelid
LEFT JOIN pg_namespace fn ON f.relnamespace = fn.oid
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = ANY (ARRAY['r', 'p', 'f', 'v', 'm']) AND n.nspname = 'public'
ORDER BY c.relname, k.conname;

-- SQLAlchemy, checks
SELECT c.relname, k.conname, CASE WHEN k.oid IS NOT NULL THEN pg_get_constraintdef(k.oid, true) END, d.description
FROM pg_class c
LEFT JOIN pg_constraint k ON c.oid = k.conrelid AND k.contype = 'c'
LEFT JOIN pg_description d ON d.objoid = k.oid
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = ANY (ARRAY['r', 'p']) AND n.nspname = 'public' ORDER BY c.relname, k.conname;

-- SQLAlchemy, indexes
SELECT c.relname, i.indisunique, con.conrelid IS NOT NULL AS has_constraint, i.indoption, cols.elements
FROM pg_index i
JOIN pg_class c ON i.indexrelid = c.oid
LEFT JOIN (
  SELECT k.indexrelid, array_agg(k.element ORDER BY k.ord) AS elements
  FROM (
    SELECT x.indexrelid, x.ord,
           CASE WHEN x.attnum = 0 THEN pg_get_indexdef(x.indexrelid, x.ord + 1, true) ELSE CAST(a.attname AS text) END AS element
    FROM (SELECT indexrelid, indrelid, unnest(indkey) AS attnum, generate_subscripts(indkey, 1) AS ord
          FROM pg_index WHERE NOT indisprimary) x
    LEFT JOIN pg_attribute a ON a.attnum = x.attnum AND a.attrelid = x.indrelid) k
  GROUP BY k.indexrelid) cols ON i.indexrelid = cols.indexrelid
LEFT JOIN pg_constraint con ON i.indrelid = con.conrelid AND i.indexrelid = con.conindid AND con.contype = ANY (ARRAY['p', 'u', 'x'])
WHERE NOT i.indisprimary AND c.relnamespace = 'public'::regnamespace ORDER BY c.relname;

-- SQLAlchemy, enums
SELECT t.typname, pg_type_is_visible(t.oid), n.nspname, l.labels
FROM pg_type t
JOIN pg_namespace n ON n.oid = t.typnamespace
LEFT JOIN (SELECT enumtypid, array_agg(CAST(enumlabel AS text) ORDER BY enumsortorder) AS labels FROM pg_enum GROUP BY enumtypid) l
  ON t.oid = l.enumtypid
WHERE t.typtype = 'e' ORDER BY n.nspname, t.typname;

-- SQLAlchemy, domains
SELECT t.typname, format_type(t.typbasetype, t.typtypmod), NOT t.typnotnull, t.typdefault, pg_type_is_visible(t.oid), n.nspname,
       k.defs, k.names, co.collname
FROM pg_type t
JOIN pg_namespace n ON n.oid = t.typnamespace
LEFT JOIN pg_collation co ON t.typcollation = co.oid
LEFT JOIN (SELECT contypid, array_agg(pg_get_constraintdef(oid, true)) AS defs, array_agg(CAST(conname AS text)) AS names
           FROM pg_constraint WHERE contypid <> 0 GROUP BY contypid) k ON t.oid = k.contypid
WHERE t.typtype = 'd' AND n.nspname = 'public' ORDER BY t.typname;

-- SQLAlchemy, a table
SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relname = 'item1' AND c.relkind = ANY (ARRAY['r', 'p', 'f', 'v', 'm']) AND pg_table_is_visible(c.oid) AND n.nspname <> 'pg_catalog';

-- psycopg, an enum
SELECT name, regtype, array_agg(label) AS labels
FROM (SELECT t.typname AS name, t.oid, t.oid::regtype::text AS regtype, e.enumlabel AS label
      FROM pg_type t LEFT JOIN pg_enum e ON e.enumtypid = t.oid
      WHERE t.oid = to_regtype('mood') ORDER BY e.enumsortorder) x
GROUP BY name, oid, regtype;

-- psycopg, a composite type
SELECT t.typname, t.oid::regtype::text, coalesce(a.fnames, '{}') AS names
FROM pg_type t
LEFT JOIN (SELECT attrelid, array_agg(attname) AS fnames, array_agg(atttypid) AS ftypes
           FROM (SELECT a.attrelid, a.attname, a.atttypid FROM pg_attribute a JOIN pg_type t ON t.typrelid = a.attrelid
                 WHERE t.oid = to_regtype('person') AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum) x
           GROUP BY attrelid) a ON a.attrelid = t.typrelid
WHERE t.oid = to_regtype('person');

-- information schema, columns
SELECT table_schema, table_name, column_name, data_type, is_nullable FROM information_schema.columns
WHERE table_schema NOT IN ('pg_catalog', 'information_schema') ORDER BY table_schema, table_name, ordinal_position;

-- information schema, keys
SELECT tc.table_name, kcu.column_name, ccu.table_name, ccu.column_name
FROM information_schema.table_constraints tc
JOIN information_schema.key_column_usage kcu ON tc.constraint_name = kcu.constraint_name AND tc.table_schema = kcu.table_schema
JOIN information_schema.constraint_column_usage ccu ON ccu.constraint_name = tc.constraint_name AND ccu.table_schema = tc.table_schema
WHERE tc.constraint_type = 'FOREIGN KEY' AND tc.table_name = 'item1' ORDER BY 1, 2, 3, 4;

-- information schema, references
SELECT rc.constraint_name, kcu.column_name, rc.update_rule, rc.delete_rule
FROM information_schema.referential_constraints rc
JOIN information_schema.key_column_usage kcu ON kcu.constraint_name = rc.constraint_name AND kcu.constraint_schema = rc.constraint_schema
WHERE kcu.table_name = 'item1' ORDER BY 1, 2;
