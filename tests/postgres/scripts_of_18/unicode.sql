-- the characters that Unicode 16.0 has assigned
select unicode_version();
select unicode_assigned(''), unicode_assigned('Straße'), unicode_assigned(U&'\1C89'), unicode_assigned(U&'\0378'), unicode_assigned(null);
select count(*), sum(n), md5(string_agg(n::text, ',' order by n)) from generate_series(1, 55295) n where not unicode_assigned(chr(n));
select count(*), sum(n), md5(string_agg(n::text, ',' order by n)) from generate_series(57344, 210000) n where not unicode_assigned(chr(n));
select count(*), sum(n), md5(string_agg(n::text, ',' order by n)) from generate_series(916000, 920000) n where not unicode_assigned(chr(n));
select n, unicode_assigned(chr(n)) from generate_series(1114108, 1114111) n;
create table t (a text check (unicode_assigned(a)), b boolean generated always as (unicode_assigned(a)) stored);
insert into t values ('é'), (U&'\1C89'), (null);
insert into t values (U&'a\0378');
select * from t where b order by a;
