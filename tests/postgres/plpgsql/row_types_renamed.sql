-- row variables after their table or type is renamed, replaced, altered or dropped
create table tb(a int, b text);
insert into tb values (1,'x');
create type ct as (p int, q text);
create domain dct as ct check ((value).p > 0);
create function r1() returns text language plpgsql as $$ declare r tb%rowtype; begin select * into r from tb limit 1; r.a := r.a + 1; return r; end $$;
create function r2() returns text language plpgsql as $$ declare r tb; begin r := row(5,'z'); return r.b || r; end $$;
create function r3() returns text language plpgsql as $$ declare r ct; begin r := (1,'q'); r.p := 7; return r || r.q; end $$;
create function r4() returns text language plpgsql as $$ declare r dct; begin r := (1,'q'); r.p := 7; return r || r.q; end $$;
create function r5(x tb) returns text language plpgsql as $$ begin return x.a || x.b; end $$;
create function r6() returns tb language plpgsql as $$ declare r tb; begin r.a := 3; return r; end $$;
create function r7() returns setof tb language plpgsql as $$ declare r tb; begin for r in select * from tb loop return next r; end loop; return query select * from tb; end $$;
create function r8() returns text language plpgsql as $$ declare x tb.a%type := 4; y tb.b%type; begin y := x; return y || pg_typeof(x); end $$;
create function ra() returns text language plpgsql as $$ declare r tb; begin execute 'select * from tb' into r; return r; exception when undefined_table then return sqlerrm; end $$;
create function rc(x ct) returns ct language plpgsql as $$ begin x.p := x.p * 2; return x; end $$;
\o /dev/null
select r1(); select r2(); select r3(); select r4(); select r5(tb) from tb; select r6(); select r7(); select r8(); select ra(); select rc((1,'w'));
\o
alter table tb rename to tc;
select r1(); select r2(); select r3(); select r4(); select r5(tc) from tc; select r6(); select r7(); select r8(); select ra(); select rc((1,'w'));
alter type ct rename to cu;
select r1(); select r2(); select r3(); select r4(); select r5(tc) from tc; select r6(); select r7(); select r8(); select ra(); select rc((1,'w'));
create table tb(zz int, yy int, xx int);
create type ct as (z int);
select r1(); select r2(); select r3(); select r4(); select r5(tc) from tc; select r6(); select r7(); select r8(); select ra(); select rc((1,'w'));
alter table tc rename a to aa;
select r1(); select r2(); select r6(); select r8();
alter table tc rename aa to a;
alter table tc add c int default 8;
select r1(); select r2(); select r3(); select r5(tc) from tc; select r6(); select r7(); select r8(); 
alter table tc alter a type bigint;
select r1(); select r2(); select r6(); select r7(); select r8(); 
alter type cu add attribute m int;
select r3(); select r4(); select rc((1,'w',3));
alter type cu drop attribute q;
select r3(); select r4(); select rc((1,3));
drop table tc cascade;
select r1(); select r2(); select r6(); select r7(); select r8(); select ra(); 
drop table tb;
select r1(); select r2();
drop function r6, r7, r5;
create function missing(k int) returns int language plpgsql as $$ declare r record; begin
 if k = 1 then select 1 as a into r; elsif k = 2 then select 1 as b into r; end if; return r.a + 1; end $$;
select missing(1); select missing(2); select missing(1); select missing(3);
\c -
select missing(2); select missing(1); select missing(2);
