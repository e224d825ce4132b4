-- The queries that ECHO_HIDDEN shows for what is described by look-ups, one a paragraph: its name, then its text, each
-- line behind a space. {where} stands for the conditions.

relations
 SELECT n.nspname AS "Schema", c.relname AS "Name",
   CASE c.relkind WHEN 'r' THEN 'table' WHEN 'v' THEN 'view' WHEN 'm' THEN 'materialized view' WHEN 'i' THEN 'index' WHEN 'S' THEN 'sequence' WHEN 'f' THEN 'foreign table' WHEN 'p' THEN 'partitioned table' WHEN 'I' THEN 'partitioned index' END AS "Type",
   pg_catalog.pg_get_userbyid(c.relowner) AS "Owner"
 FROM pg_catalog.pg_class c
      JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace{where}
 ORDER BY 1, 2;

columns
 SELECT n.nspname AS "Schema", c.relname AS "Name", a.attname AS "Column",
   pg_catalog.format_type(a.atttypid, a.atttypmod) AS "Type", a.attnotnull AS "Not null",
   pg_catalog.pg_get_expr(d.adbin, d.adrelid, true) AS "Default"
 FROM pg_catalog.pg_class c
      JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
      JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid
      LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum{where}
 ORDER BY 1, 2, a.attnum;

members
 SELECT p.pubname AS "Name", n.nspname AS "Schema", c.relname AS "Table", pr.prattrs AS "Columns",
   pg_catalog.pg_get_expr(pr.prqual, c.oid) AS "Where"
 FROM pg_catalog.pg_publication p
      JOIN pg_catalog.pg_publication_rel pr ON pr.prpubid = p.oid
      JOIN pg_catalog.pg_class c ON c.oid = pr.prrelid
      JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace{where}
 ORDER BY 1, 2, 3;

databases
 SELECT datname AS "Name", pg_catalog.pg_get_userbyid(datdba) AS "Owner",
   pg_catalog.pg_encoding_to_char(encoding) AS "Encoding", datcollate AS "Collate", datctype AS "Ctype",
   datacl AS "Access privileges"
 FROM pg_catalog.pg_database{where}
 ORDER BY 1;

n
 SELECT nspname AS "Name", pg_catalog.pg_get_userbyid(nspowner) AS "Owner"
 FROM pg_catalog.pg_namespace{where}
 ORDER BY 1;

u
 SELECT r.rolname, r.rolsuper, r.rolinherit, r.rolcreaterole, r.rolcreatedb, r.rolcanlogin,
   r.rolconnlimit, r.rolvaliduntil, r.rolreplication, r.rolbypassrls
 FROM pg_catalog.pg_roles r{where}
 ORDER BY 1;

config
 SELECT s.name AS "Parameter", pg_catalog.current_setting(s.name) AS "Value"
 FROM pg_catalog.pg_settings s{where}
 ORDER BY 1;

rg
 SELECT r.rolname AS "Role name", b.rolname AS "Member of", m.admin_option, m.inherit_option,
   m.set_option, g.rolname AS "Grantor"
 FROM pg_catalog.pg_auth_members m
      JOIN pg_catalog.pg_roles r ON r.oid = m.member
      JOIN pg_catalog.pg_roles b ON b.oid = m.roleid
      JOIN pg_catalog.pg_roles g ON g.oid = m.grantor{where}
 ORDER BY 1, 2, 6;

rds
 SELECT r.rolname AS "Role", d.datname AS "Database",
   pg_catalog.array_to_string(s.setconfig, E'\n') AS "Settings"
 FROM pg_catalog.pg_db_role_setting s
      LEFT JOIN pg_catalog.pg_database d ON d.oid = s.setdatabase
      LEFT JOIN pg_catalog.pg_roles r ON r.oid = s.setrole{where}
 ORDER BY 1, 2;

p
 SELECT n.nspname AS "Schema", c.relname AS "Name",
   CASE c.relkind WHEN 'r' THEN 'table' WHEN 'v' THEN 'view' WHEN 'm' THEN 'materialized view' WHEN 'i' THEN 'index' WHEN 'S' THEN 'sequence' WHEN 'f' THEN 'foreign table' WHEN 'p' THEN 'partitioned table' WHEN 'I' THEN 'partitioned index' END AS "Type",
   c.relacl AS "Access privileges"
 FROM pg_catalog.pg_class c
      JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace{where}
 ORDER BY 1, 2;

dp
 SELECT pg_catalog.pg_get_userbyid(d.defaclrole) AS "Owner", n.nspname AS "Schema",
   CASE d.defaclobjtype WHEN 'r' THEN 'table' WHEN 'S' THEN 'sequence' WHEN 'f' THEN 'function'
     WHEN 'T' THEN 'type' WHEN 'n' THEN 'schema' END AS "Type",
   d.defaclacl AS "Access privileges"
 FROM pg_catalog.pg_default_acl d
      LEFT JOIN pg_catalog.pg_namespace n ON n.oid = d.defaclnamespace{where}
 ORDER BY 1, 2, 3;
