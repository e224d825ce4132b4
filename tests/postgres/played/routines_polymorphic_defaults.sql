create function ps(x anyelement, y anyelement default null) returns text language sql as 'select pg_typeof($1)::text || pg_typeof($2)'; select ps(1), ps('q'::text);
create function pp(x anyelement, y anyelement default null) returns text language plpgsql as 'begin return pg_typeof($1)::text || pg_typeof($2); end'; select pp(1), pp('q'::text);
create function pq(x anyelement, y anyelement default 5) returns text language plpgsql as 'begin return pg_typeof($1)::text || pg_typeof($2); end'; select pq(1), pq(2, null); select pq('q'::text);
create function pr(x anycompatible, y anycompatible default 'q') returns text language plpgsql as 'begin return pg_typeof($1)::text || pg_typeof($2); end'; select pr(1); select pr('w'), pr('a'::text);
create function pt(x anyelement, y anyarray default '{}') returns text language plpgsql as 'begin return pg_typeof($1)::text || pg_typeof($2); end'; select pt(1), pt('w'::text); 
create function pu(x int default null, y text default 'a') returns text language plpgsql as 'begin return coalesce(x::text, y); end'; select pu(), pu(1), pu(y => 'e'); 
create procedure pv(x anyelement, y anyelement default null) language plpgsql as $$begin raise notice '% %',  pg_typeof($1), pg_typeof($2); end $$; call pv(1);
