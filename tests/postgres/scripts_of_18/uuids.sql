select uuid_extract_version(uuidv7()), uuid_extract_version(uuidv4()), uuid_extract_version(gen_random_uuid());
select abs(extract(epoch from uuid_extract_timestamp(uuidv7()) - now())) < 5;
select extract(epoch from uuid_extract_timestamp(uuidv7(interval '1 day')) - now()) between 86390 and 86410;
select uuid_extract_timestamp(uuidv7(interval '-10 years')) < now() - interval '9 years';
select uuid_extract_timestamp(uuidv7(shift => interval '1 mon')) > now() + interval '27 days';
select uuid_extract_timestamp(uuidv7(null));
select uuid_extract_timestamp('0190b5a5-0000-7000-8000-000000000000');
select uuid_extract_timestamp('C232AB00-9414-11EC-B3C8-9F6BDECED846');
select uuid_extract_timestamp('11111111-1111-1111-1111-111111111111'), uuid_extract_version('11111111-1111-1111-1111-111111111111');
select uuid_extract_version('11111111-1111-5111-8111-111111111111'), uuid_extract_version('00000000-0000-0000-0000-000000000000');
select uuid_extract_timestamp('017F22E2-79B0-7CC3-98C4-DC0C0C07398F') = 'Tuesday, February 22, 2022 2:22:22.00 PM GMT+05:00';
select count(distinct uuidv7()), bool_and(a < b) from (select uuidv7() a, uuidv7() b from generate_series(1, 100)) x;
create table u (id uuid default uuidv7() primary key, n int);
insert into u (n) select g from generate_series(1, 50) g;
select array_agg(n order by id) = array_agg(n order by n) from u;
\df uuidv7
create table v (id uuid, g timestamptz generated always as (uuid_extract_timestamp(id)));
insert into v values ('017F22E2-79B0-7CC3-98C4-DC0C0C07398F') returning g;
