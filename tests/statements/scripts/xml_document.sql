-- IS DOCUMENT: which XML is one document.
SELECT '<a/>'::xml IS DOCUMENT, xml 'abc' IS DOCUMENT, xml '<a/><b/>' IS DOCUMENT, xml '' IS DOCUMENT, NULL::xml IS DOCUMENT;
SELECT '<a/>' IS DOCUMENT;
SELECT 1 IS DOCUMENT;
\echo :LAST_ERROR_SQLSTATE
SELECT xml ' <a/>' IS DOCUMENT, xml '<a/> ' IS DOCUMENT, xml '<!--x--><a/>' IS DOCUMENT, xml '<?pi?><a/>' IS NOT DOCUMENT, xml '<a/>x' IS NOT DOCUMENT;
CREATE TABLE x (n int PRIMARY KEY, a xml, CHECK (a IS DOCUMENT OR n > 1));
INSERT INTO x VALUES (1, '<a/>'), (2, 'b'), (3, NULL);
INSERT INTO x VALUES (0, 'b');
SELECT n, a, a IS DOCUMENT, a IS NOT DOCUMENT AS "not" FROM x ORDER BY n;
CREATE VIEW v AS SELECT a IS DOCUMENT AS d, a IS NOT DOCUMENT AS e, (CASE WHEN n = 1 THEN a END) IS DOCUMENT AS f FROM x WHERE NOT a IS DOCUMENT;
SELECT pg_get_viewdef('v'), pg_get_viewdef('v', true);
TABLE v;
\d x
CREATE PUBLICATION p FOR TABLE x WHERE (a IS DOCUMENT) WITH (publish = 'insert');
SELECT pg_get_expr(prqual, prrelid) FROM pg_publication_rel;
PREPARE q AS SELECT $1 IS DOCUMENT;
EXECUTE q ('<a/>');
SELECT ROW(1) IS DOCUMENT;
SELECT generate_series(1, 2)::text::xml IS DOCUMENT;
\pset format unaligned
\pset tuples_only on
SELECT left(a, 70), xml_is_well_formed_document(a) from (values ('<a/>'),(' <a/>'),('<?xml version="1.0"?><a/>'),(' <?xml version="1.0"?><a/>'),('<?xml version="1.0" encoding="latin1"?><a>é</a>'),('<?xml version="1.0" encoding="utf-16"?><a>é</a>'),('<?xml version="2.0"?><a/>'),('<?xml version="1.0" encoding="nonsense"?><a/>'),('<?xml version="1.0" standalone="yes"?><a/>'),('<?xml version="1.0" standalone="x"?><a/>'),('<?xml encoding="utf-8"?><a/>'),('<a b="1" b="2"/>'),('<a>&lt;</a>'),('<a>&nbsp;</a>'),('<a>&#1;</a>'),('<a>&#xD800;</a>'),('<a><![CDATA[x]]></a>'),('<a>]]></a>'),('<a b="<"/>'),('<1/>'),('<a:b/>'),('<a:b:c/>'),('<a xmlns:b=""/>'),('<!DOCTYPE a SYSTEM "file:///etc/passwd"><a/>'),('<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>'),('<!DOCTYPE a SYSTEM "x"><a>&y;</a>'),('<!DOCTYPE a [<!ENTITY x "y">]><a>&x;&x;</a>'),('<!DOCTYPE a [<!ENTITY x "<b>">]><a>&x;</a>'),('<!DOCTYPE b><a/>'),('<a/><!-- c -->'),('<!-- -- --><a/>'),('<?xml?><a/>'),('<a/>x'),('<a></b>'),(''),('a'),('<é/>'),('<a é="1"/>'),('<a>'||repeat('<b>',300)||repeat('</b>',300)||'</a>'),('<!DOCTYPE a [<!ENTITY a0 "x"><!ENTITY a1 "&a0;&a0;&a0;&a0;&a0;&a0;&a0;&a0;&a0;&a0;"><!ENTITY a2 "&a1;&a1;&a1;&a1;&a1;&a1;&a1;&a1;&a1;&a1;"><!ENTITY a3 "&a2;&a2;&a2;&a2;&a2;&a2;&a2;&a2;&a2;&a2;"><!ENTITY a4 "&a3;&a3;&a3;&a3;&a3;&a3;&a3;&a3;&a3;&a3;"><!ENTITY a5 "&a4;&a4;&a4;&a4;&a4;&a4;&a4;&a4;&a4;&a4;"><!ENTITY a6 "&a5;&a5;&a5;&a5;&a5;&a5;&a5;&a5;&a5;&a5;"><!ENTITY a7 "&a6;&a6;&a6;&a6;&a6;&a6;&a6;&a6;&a6;&a6;">]><a>&a7;</a>'),('<!DOCTYPE a [<!ENTITY a "&b;"><!ENTITY b "&a;">]><a>&a;</a>')) t(a);
SELECT n, xml_is_well_formed_document(repeat('<b>', n) || repeat('</b>', n)) FROM generate_series(256, 258) n;
