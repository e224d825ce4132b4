select $1 as a, $2::int + 1 as b \bind 'x''y\\z' 41 \g
select $1 + 1 as s, $1 as t \bind 5 \g
select 1 \bind x \g
select $2 \bind x \g
select $1, foo \bind x \g
select foo, $1 \bind \g
select $1::int, nosuch, $2 \bind 1 2 \g
select $1 as a \bind \g
create role r1 \bind x \g
create role r1 \bind \g
drop role r1 \bind \g
selec \bind x \g
select 1\; select 2 \bind \g
select $1 where false \bind 'a' \gdesc
\bind a b
select 1;
begin;
select $1 \bind \g
select 1;
rollback;
