CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE TYPE complex AS (r float8, i float8);
CREATE DOMAIN posint AS int DEFAULT 3 CHECK (VALUE > 0) ;
CREATE DOMAIN nn AS varchar(10) COLLATE "C" NOT NULL;
CREATE SCHEMA s;
CREATE TYPE s.mood AS ENUM ('x');
COMMENT ON TYPE mood IS 'feelings';
COMMENT ON DOMAIN posint IS 'positive';
\dT
\dT+
\dT mood
\dT *.mood
\dT mood[]
\dT+ s.*
\dT nope
\dD
\dD+
\dD s.*
\dD pos*
GRANT USAGE ON TYPE mood TO PUBLIC;
REVOKE USAGE ON TYPE mood FROM PUBLIC;
CREATE ROLE joe9;
GRANT USAGE ON TYPE mood TO joe9;
GRANT ALL ON DOMAIN posint TO joe9 WITH GRANT OPTION;
GRANT SELECT ON TYPE mood TO joe9;
GRANT USAGE ON TYPE posint TO joe9;
GRANT USAGE ON DOMAIN mood TO joe9;
GRANT USAGE ON TYPE nope TO joe9;
GRANT USAGE ON TYPE mood[] TO joe9;
GRANT USAGE ON TYPE _mood TO joe9;
\dT+ mood
\dD+ posint
SELECT typname, typacl FROM pg_type WHERE typname IN ('mood','posint','complex') AND typnamespace = 'public'::regnamespace ORDER BY 1;
SELECT has_type_privilege('joe9', 'mood', 'USAGE'), has_type_privilege('joe9', 'complex', 'usage'), has_type_privilege('mood', 'USAGE WITH GRANT OPTION'), has_type_privilege('joe9', 'mood', 'USAGE WITH GRANT OPTION');
SELECT has_type_privilege('joe9', 'mood', 'SELECT');
SELECT has_type_privilege('joe9', 'nope', 'USAGE');
SELECT has_type_privilege('joe9', 0, 'USAGE'), has_type_privilege('joe9', 'mood'::regtype, 'USAGE');
CREATE ROLE jane9;
SET ROLE jane9;
CREATE TABLE jt (m mood);
CREATE TABLE jt (m mood[]);
CREATE DOMAIN jd AS mood;
CREATE TYPE jc AS (m mood);
SELECT 'sad'::mood;
ALTER TYPE mood ADD VALUE 'x';
ALTER TYPE mood RENAME TO y;
DROP TYPE mood;
ALTER DOMAIN posint DROP DEFAULT;
COMMENT ON TYPE mood IS 'x';
ALTER TYPE complex ADD ATTRIBUTE x int;
RESET ROLE;
DROP ROLE joe9;
DROP OWNED BY joe9;
DROP ROLE joe9;
SELECT typname, typacl FROM pg_type WHERE typname IN ('mood','posint','complex') AND typnamespace = 'public'::regnamespace ORDER BY 1;
CREATE PUBLICATION p;
CREATE TABLE rf (id int PRIMARY KEY, m mood, c complex, d posint);
ALTER PUBLICATION p ADD TABLE rf WHERE (m = 'sad');
ALTER PUBLICATION p ADD TABLE rf WHERE (c IS NOT NULL);
ALTER PUBLICATION p ADD TABLE rf WHERE ((c).r > 0);
ALTER PUBLICATION p ADD TABLE rf WHERE (d > 5);
ALTER PUBLICATION p ADD TABLE rf WHERE (id::posint > 5);
ALTER PUBLICATION p ADD TABLE rf WHERE (id > 5);
-- comments on arrays, and the arrays of tables' row types
create type commented as enum ('a');
create domain remarked as int;
comment on type commented[] is 'array';
comment on type commented is 'element';
select obj_description('commented'::regtype), obj_description('commented[]'::regtype);
comment on domain remarked is 'x';
comment on domain remarked[] is 'x';
comment on domain commented is 'x';
comment on type nowhere[] is 'x';
comment on domain nowhere is 'x';
create table rowed (a int);
drop type _rowed;
drop type rowed[] cascade;
drop type public._rowed;
drop type if exists _rowed, nowhere;
drop type if exists rowed, nowhere;
drop domain _rowed;
drop domain rowed[];
drop table rowed;
drop type commented;
drop domain remarked;
