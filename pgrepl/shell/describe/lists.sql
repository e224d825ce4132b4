-- The queries of lists, as psql sends them (describe.c), one a paragraph: its name, then its text. A line's first
-- character says when it is sent: `+` with a `+` in the command, `7` or `8` with one to PostgreSQL 17 or 18, `-` without
-- one, `*` without one to 18, a space always. {where} or {and} stand for the conditions of patterns, {found} for what
-- another query has found.

options
 CASE WHEN {of} IS NULL THEN '' ELSE   '(' || pg_catalog.array_to_string(ARRAY(SELECT   pg_catalog.quote_ident(option_name) ||  ' ' ||   pg_catalog.quote_literal(option_value)  FROM   pg_catalog.pg_options_to_table({of})),  ', ') || ')'   END AS "FDW options"

a
 SELECT n.nspname as "Schema",
   p.proname AS "Name",
   pg_catalog.format_type(p.prorettype, NULL) AS "Result data type",
   CASE WHEN p.pronargs = 0
     THEN CAST('*' AS pg_catalog.text)
     ELSE pg_catalog.pg_get_function_arguments(p.oid)
   END AS "Argument data types",
   pg_catalog.obj_description(p.oid, 'pg_proc') as "Description"
 FROM pg_catalog.pg_proc p
      LEFT JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
 {where}ORDER BY 1, 2, 4;

A
 SELECT amname AS "Name",
-  CASE amtype WHEN 'i' THEN 'Index' WHEN 't' THEN 'Table' END AS "Type"
+  CASE amtype WHEN 'i' THEN 'Index' WHEN 't' THEN 'Table' END AS "Type",
+  amhandler AS "Handler",
+  pg_catalog.obj_description(oid, 'pg_am') AS "Description"
 FROM pg_catalog.pg_am
 {where}ORDER BY 1;

b
 SELECT spcname AS "Name",
   pg_catalog.pg_get_userbyid(spcowner) AS "Owner",
-  '' AS "Location"
+  '' AS "Location",
+  pg_catalog.array_to_string(spcacl, E'\n') AS "Access privileges",
+  spcoptions AS "Options",
+  pg_catalog.pg_size_pretty(pg_catalog.pg_tablespace_size(oid)) AS "Size",
+  pg_catalog.shobj_description(oid, 'pg_tablespace') AS "Description"
 FROM pg_catalog.pg_tablespace
 {where}ORDER BY 1;

c
 SELECT n.nspname AS "Schema",
        c.conname AS "Name",
        pg_catalog.pg_encoding_to_char(c.conforencoding) AS "Source",
        pg_catalog.pg_encoding_to_char(c.contoencoding) AS "Destination",
-       CASE WHEN c.condefault THEN 'yes' ELSE 'no' END AS "Default?"
+       CASE WHEN c.condefault THEN 'yes' ELSE 'no' END AS "Default?",
+       pg_catalog.obj_description(c.oid, 'pg_conversion') AS "Description"
 FROM pg_catalog.pg_conversion c
      JOIN pg_catalog.pg_namespace n ON n.oid = c.connamespace
 {where}ORDER BY 1, 2;

L
 SELECT l.lanname AS "Name",
        pg_catalog.pg_get_userbyid(l.lanowner) as "Owner",
        l.lanpltrusted AS "Trusted",
+       NOT l.lanispl AS "Internal language",
+       l.lanplcallfoid::pg_catalog.regprocedure AS "Call handler",
+       l.lanvalidator::pg_catalog.regprocedure AS "Validator",
+       l.laninline::pg_catalog.regprocedure AS "Inline handler",
+       pg_catalog.array_to_string(l.lanacl, E'\n') AS "Access privileges",
        pg_catalog.obj_description(l.oid, 'pg_language') AS "Description"
 FROM pg_catalog.pg_language l
 {where}ORDER BY 1;

l
 SELECT oid as "ID",
   pg_catalog.pg_get_userbyid(lomowner) as "Owner",
+  pg_catalog.array_to_string(lomacl, E'\n') AS "Access privileges",
   pg_catalog.obj_description(oid, 'pg_largeobject') as "Description"
 FROM pg_catalog.pg_largeobject_metadata
 ORDER BY oid;

O
 SELECT
   n.nspname AS "Schema",
   c.collname AS "Name",
   CASE c.collprovider WHEN 'd' THEN 'default' WHEN 'b' THEN 'builtin' WHEN 'c' THEN 'libc' WHEN 'i' THEN 'icu' END AS "Provider",
   c.collcollate AS "Collate",
   c.collctype AS "Ctype",
   c.colllocale AS "Locale",
   c.collicurules AS "ICU Rules",
-  CASE WHEN c.collisdeterministic THEN 'yes' ELSE 'no' END AS "Deterministic?"
+  CASE WHEN c.collisdeterministic THEN 'yes' ELSE 'no' END AS "Deterministic?",
+  pg_catalog.obj_description(c.oid, 'pg_collation') AS "Description"
 FROM pg_catalog.pg_collation c, pg_catalog.pg_namespace n
 {where}ORDER BY 1, 2;

X
 SELECT es.stxnamespace::pg_catalog.regnamespace::pg_catalog.text AS "Schema", es.stxname AS "Name",
   NULL::text AS "Definition", NULL::text AS "Ndistinct", NULL::text AS "Dependencies", NULL::text AS "MCV"
 FROM pg_catalog.pg_statistic_ext es
 {where}ORDER BY 1, 2;

x
 SELECT e.extname AS "Name", e.extversion AS "Version",
*  ae.default_version AS "Default version",
   n.nspname AS "Schema", pg_catalog.obj_description(e.oid, 'pg_extension') AS "Description"
 FROM pg_catalog.pg_extension e LEFT JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace
*  LEFT JOIN pg_catalog.pg_available_extensions() ae(name, default_version, comment) ON ae.name = e.extname
 {where}ORDER BY 1;

y
 SELECT evtname as "Name", evtevent as "Event", pg_catalog.pg_get_userbyid(e.evtowner) as "Owner",
  case evtenabled when 'O' then 'enabled'  when 'R' then 'replica'  when 'A' then 'always'  when 'D' then 'disabled' end as "Enabled",
- e.evtfoid::pg_catalog.regproc as "Function", pg_catalog.array_to_string(evttags, ', ') as "Tags"
+ e.evtfoid::pg_catalog.regproc as "Function", pg_catalog.array_to_string(evttags, ', ') as "Tags",
+pg_catalog.obj_description(e.oid, 'pg_event_trigger') as "Description"
 FROM pg_catalog.pg_event_trigger e
 {where}ORDER BY 1;

x contents
 SELECT pg_catalog.pg_describe_object(classid, objid, 0) AS "Object description"
 FROM pg_catalog.pg_depend
 WHERE refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass AND refobjid = (SELECT oid FROM pg_catalog.pg_extension WHERE extname = {found})
   AND deptype = 'e'
 ORDER BY 1;

Ac
 SELECT
   am.amname AS "AM",
   pg_catalog.format_type(c.opcintype, NULL) AS "Input type",
   CASE
     WHEN c.opckeytype <> 0 AND c.opckeytype <> c.opcintype
     THEN pg_catalog.format_type(c.opckeytype, NULL)
     ELSE NULL
   END AS "Storage type",
   CASE
     WHEN pg_catalog.pg_opclass_is_visible(c.oid)
     THEN pg_catalog.format('%I', c.opcname)
     ELSE pg_catalog.format('%I.%I', n.nspname, c.opcname)
   END AS "Operator class",
   (CASE WHEN c.opcdefault
     THEN 'yes'
     ELSE 'no'
-  END) AS "Default?"
+  END) AS "Default?",
+  CASE
+    WHEN pg_catalog.pg_opfamily_is_visible(of.oid)
+    THEN pg_catalog.format('%I', of.opfname)
+    ELSE pg_catalog.format('%I.%I', ofn.nspname, of.opfname)
+  END AS "Operator family",
+ pg_catalog.pg_get_userbyid(c.opcowner) AS "Owner"
+
 FROM pg_catalog.pg_opclass c
   LEFT JOIN pg_catalog.pg_am am on am.oid = c.opcmethod
   LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.opcnamespace
   LEFT JOIN pg_catalog.pg_type t ON t.oid = c.opcintype
   LEFT JOIN pg_catalog.pg_namespace tn ON tn.oid = t.typnamespace
+  LEFT JOIN pg_catalog.pg_opfamily of ON of.oid = c.opcfamily
+  LEFT JOIN pg_catalog.pg_namespace ofn ON ofn.oid = of.opfnamespace
 {where}ORDER BY 1, 2, 4;

Af
 SELECT
   am.amname AS "AM",
   CASE
     WHEN pg_catalog.pg_opfamily_is_visible(f.oid)
     THEN pg_catalog.format('%I', f.opfname)
     ELSE pg_catalog.format('%I.%I', n.nspname, f.opfname)
   END AS "Operator family",
   (SELECT
      pg_catalog.string_agg(pg_catalog.format_type(oc.opcintype, NULL), ', ')
    FROM pg_catalog.pg_opclass oc
-   WHERE oc.opcfamily = f.oid) "Applicable types"
+   WHERE oc.opcfamily = f.oid) "Applicable types",
+  pg_catalog.pg_get_userbyid(f.opfowner) AS "Owner"
+
 FROM pg_catalog.pg_opfamily f
   LEFT JOIN pg_catalog.pg_am am on am.oid = f.opfmethod
   LEFT JOIN pg_catalog.pg_namespace n ON n.oid = f.opfnamespace
 {where}ORDER BY 1, 2;

Af of a type
 EXISTS (
     SELECT 1
     FROM pg_catalog.pg_type t
     JOIN pg_catalog.pg_opclass oc ON oc.opcintype = t.oid
     LEFT JOIN pg_catalog.pg_namespace tn ON tn.oid = t.typnamespace
     WHERE oc.opcfamily = f.oid
 {and}  )

Ao
 SELECT
   am.amname AS "AM",
   CASE
     WHEN pg_catalog.pg_opfamily_is_visible(of.oid)
     THEN pg_catalog.format('%I', of.opfname)
     ELSE pg_catalog.format('%I.%I', nsf.nspname, of.opfname)
   END AS "Operator family",
   o.amopopr::pg_catalog.regoperator AS "Operator"
 ,  o.amopstrategy AS "Strategy",
   CASE o.amoppurpose
     WHEN 'o' THEN 'ordering'
     WHEN 's' THEN 'search'
   END AS "Purpose"
7, ofs.opfname AS "Sort opfamily"
8, ofs.opfname AS "Sort opfamily",
8  CASE
8    WHEN p.proleakproof THEN 'yes'
8    ELSE 'no'
8  END AS "Leakproof?"
 FROM pg_catalog.pg_amop o
   LEFT JOIN pg_catalog.pg_opfamily of ON of.oid = o.amopfamily
   LEFT JOIN pg_catalog.pg_am am ON am.oid = of.opfmethod AND am.oid = o.amopmethod
   LEFT JOIN pg_catalog.pg_namespace nsf ON of.opfnamespace = nsf.oid
+  LEFT JOIN pg_catalog.pg_opfamily ofs ON ofs.oid = o.amopsortfamily
8  LEFT JOIN pg_catalog.pg_operator op ON op.oid = o.amopopr
8  LEFT JOIN pg_catalog.pg_proc p ON p.oid = op.oprcode
 {where}ORDER BY 1, 2,
   o.amoplefttype = o.amoprighttype DESC,
   pg_catalog.format_type(o.amoplefttype, NULL),
   pg_catalog.format_type(o.amoprighttype, NULL),
   o.amopstrategy;

Ap
 SELECT
   am.amname AS "AM",
   CASE
     WHEN pg_catalog.pg_opfamily_is_visible(of.oid)
     THEN pg_catalog.format('%I', of.opfname)
     ELSE pg_catalog.format('%I.%I', ns.nspname, of.opfname)
   END AS "Operator family",
   pg_catalog.format_type(ap.amproclefttype, NULL) AS "Registered left type",
   pg_catalog.format_type(ap.amprocrighttype, NULL) AS "Registered right type",
   ap.amprocnum AS "Number"
-, p.proname AS "Function"
+, ap.amproc::pg_catalog.regprocedure AS "Function"
 FROM pg_catalog.pg_amproc ap
   LEFT JOIN pg_catalog.pg_opfamily of ON of.oid = ap.amprocfamily
   LEFT JOIN pg_catalog.pg_am am ON am.oid = of.opfmethod
   LEFT JOIN pg_catalog.pg_namespace ns ON of.opfnamespace = ns.oid
   LEFT JOIN pg_catalog.pg_proc p ON ap.amproc = p.oid
 {where}ORDER BY 1, 2,
   ap.amproclefttype = ap.amprocrighttype DESC,
   3, 4, 5;

C
 SELECT pg_catalog.format_type(castsource, NULL) AS "Source type",
        pg_catalog.format_type(casttarget, NULL) AS "Target type",
        CASE WHEN c.castmethod = 'b' THEN '(binary coercible)'
             WHEN c.castmethod = 'i' THEN '(with inout)'
             ELSE p.proname
        END AS "Function",
        CASE WHEN c.castcontext = 'e' THEN 'no'
             WHEN c.castcontext = 'a' THEN 'in assignment'
             ELSE 'yes'
-       END AS "Implicit?"
+       END AS "Implicit?",
+       pg_catalog.obj_description(c.oid, 'pg_cast') AS "Description"
 FROM pg_catalog.pg_cast c LEFT JOIN pg_catalog.pg_proc p
      ON c.castfunc = p.oid
      LEFT JOIN pg_catalog.pg_type ts
      ON c.castsource = ts.oid
      LEFT JOIN pg_catalog.pg_namespace ns
      ON ns.oid = ts.typnamespace
      LEFT JOIN pg_catalog.pg_type tt
      ON c.casttarget = tt.oid
      LEFT JOIN pg_catalog.pg_namespace nt
      ON nt.oid = tt.typnamespace
 WHERE ( {found} )
 ORDER BY 1, 2;

es
 SELECT s.srvname AS "Name",
   pg_catalog.pg_get_userbyid(s.srvowner) AS "Owner",
-  f.fdwname AS "Foreign-data wrapper"
+  f.fdwname AS "Foreign-data wrapper",
+  CASE WHEN pg_catalog.array_length(s.srvacl, 1) = 0 THEN '(none)' ELSE pg_catalog.array_to_string(s.srvacl, E'\n') END AS "Access privileges",
+  s.srvtype AS "Type",
+  s.srvversion AS "Version",
+  {options srvoptions},
+  d.description AS "Description"
 FROM pg_catalog.pg_foreign_server s
      JOIN pg_catalog.pg_foreign_data_wrapper f ON f.oid=s.srvfdw
+LEFT JOIN pg_catalog.pg_description d
+       ON d.classoid = s.tableoid AND d.objoid = s.oid AND d.objsubid = 0
 {where}ORDER BY 1;

et
 SELECT n.nspname AS "Schema",
   c.relname AS "Table",
-  s.srvname AS "Server"
+  s.srvname AS "Server",
+ {options ftoptions},
+  d.description AS "Description"
 FROM pg_catalog.pg_foreign_table ft
   INNER JOIN pg_catalog.pg_class c ON c.oid = ft.ftrelid
   INNER JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
   INNER JOIN pg_catalog.pg_foreign_server s ON s.oid = ft.ftserver
+   LEFT JOIN pg_catalog.pg_description d
+          ON d.classoid = c.tableoid AND d.objoid = c.oid AND d.objsubid = 0
 {where}ORDER BY 1, 2;

eu
 SELECT um.srvname AS "Server",
-  um.usename AS "User name"
+  um.usename AS "User name",
+ {options umoptions}
 FROM pg_catalog.pg_user_mappings um
 {where}ORDER BY 1, 2;

ew
 SELECT fdw.fdwname AS "Name",
   pg_catalog.pg_get_userbyid(fdw.fdwowner) AS "Owner",
   fdw.fdwhandler::pg_catalog.regproc AS "Handler",
-  fdw.fdwvalidator::pg_catalog.regproc AS "Validator"
+  fdw.fdwvalidator::pg_catalog.regproc AS "Validator",
+  CASE WHEN pg_catalog.array_length(fdwacl, 1) = 0 THEN '(none)' ELSE pg_catalog.array_to_string(fdwacl, E'\n') END AS "Access privileges",
+ {options fdwoptions},
+  d.description AS "Description" 
 FROM pg_catalog.pg_foreign_data_wrapper fdw
+LEFT JOIN pg_catalog.pg_description d
+       ON d.classoid = fdw.tableoid AND d.objoid = fdw.oid AND d.objsubid = 0
 {where}ORDER BY 1;

F
-SELECT
-   n.nspname as "Schema",
-   c.cfgname as "Name",
-   pg_catalog.obj_description(c.oid, 'pg_ts_config') as "Description"
-FROM pg_catalog.pg_ts_config c
-LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.cfgnamespace
-{where}ORDER BY 1, 2;
+SELECT c.oid, c.cfgname,
+   n.nspname,
+   p.prsname,
+   np.nspname as pnspname
+FROM pg_catalog.pg_ts_config c
+   LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.cfgnamespace,
+ pg_catalog.pg_ts_parser p
+   LEFT JOIN pg_catalog.pg_namespace np ON np.oid = p.prsnamespace
+WHERE  p.oid = c.cfgparser
+{and}ORDER BY 3, 2;

F dictionaries
 SELECT
   ( SELECT t.alias FROM
     pg_catalog.ts_token_type(c.cfgparser) AS t
     WHERE t.tokid = m.maptokentype ) AS "Token",
   pg_catalog.btrim(
     ARRAY( SELECT mm.mapdict::pg_catalog.regdictionary
            FROM pg_catalog.pg_ts_config_map AS mm
            WHERE mm.mapcfg = m.mapcfg AND mm.maptokentype = m.maptokentype
            ORDER BY mapcfg, maptokentype, mapseqno
     ) :: pg_catalog.text,
   '{}') AS "Dictionaries"
 FROM pg_catalog.pg_ts_config AS c, pg_catalog.pg_ts_config_map AS m
 WHERE c.oid = '{found}' AND m.mapcfg = c.oid
 GROUP BY m.mapcfg, m.maptokentype, c.cfgparser
 ORDER BY 1;

Fd
 SELECT
   n.nspname as "Schema",
   d.dictname as "Name",
+  ( SELECT COALESCE(nt.nspname, '(null)')::pg_catalog.text || '.' || t.tmplname FROM
+    pg_catalog.pg_ts_template t
+    LEFT JOIN pg_catalog.pg_namespace nt ON nt.oid = t.tmplnamespace
+    WHERE d.dicttemplate = t.oid ) AS  "Template",
+  d.dictinitoption as "Init options",
   pg_catalog.obj_description(d.oid, 'pg_ts_dict') as "Description"
 FROM pg_catalog.pg_ts_dict d
 LEFT JOIN pg_catalog.pg_namespace n ON n.oid = d.dictnamespace
 {where}ORDER BY 1, 2;

Fp
-SELECT
-  n.nspname as "Schema",
-  p.prsname as "Name",
-  pg_catalog.obj_description(p.oid, 'pg_ts_parser') as "Description"
+SELECT p.oid,
+  n.nspname,
+  p.prsname
 FROM pg_catalog.pg_ts_parser p
 LEFT JOIN pg_catalog.pg_namespace n ON n.oid = p.prsnamespace
 {where}ORDER BY 1, 2;

Fp methods
 SELECT 'Start parse' AS "Method",
    p.prsstart::pg_catalog.regproc AS "Function",
    pg_catalog.obj_description(p.prsstart, 'pg_proc') as "Description"
  FROM pg_catalog.pg_ts_parser p
  WHERE p.oid = '{found}'
 UNION ALL
 SELECT 'Get next token',
    p.prstoken::pg_catalog.regproc,
    pg_catalog.obj_description(p.prstoken, 'pg_proc')
  FROM pg_catalog.pg_ts_parser p
  WHERE p.oid = '{found}'
 UNION ALL
 SELECT 'End parse',
    p.prsend::pg_catalog.regproc,
    pg_catalog.obj_description(p.prsend, 'pg_proc')
  FROM pg_catalog.pg_ts_parser p
  WHERE p.oid = '{found}'
 UNION ALL
 SELECT 'Get headline',
    p.prsheadline::pg_catalog.regproc,
    pg_catalog.obj_description(p.prsheadline, 'pg_proc')
  FROM pg_catalog.pg_ts_parser p
  WHERE p.oid = '{found}'
 UNION ALL
 SELECT 'Get token types',
    p.prslextype::pg_catalog.regproc,
    pg_catalog.obj_description(p.prslextype, 'pg_proc')
  FROM pg_catalog.pg_ts_parser p
  WHERE p.oid = '{found}';

Fp tokens
 SELECT t.alias as "Token name",
   t.description as "Description"
 FROM pg_catalog.ts_token_type( '{found}'::pg_catalog.oid ) as t
 ORDER BY 1;

Ft
 SELECT
   n.nspname AS "Schema",
   t.tmplname AS "Name",
+  t.tmplinit::pg_catalog.regproc AS "Init",
+  t.tmpllexize::pg_catalog.regproc AS "Lexize",
   pg_catalog.obj_description(t.oid, 'pg_ts_template') AS "Description"
 FROM pg_catalog.pg_ts_template t
 LEFT JOIN pg_catalog.pg_namespace n ON n.oid = t.tmplnamespace
 {where}ORDER BY 1, 2;
