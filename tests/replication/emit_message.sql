-- logical messages as slots give them away; recorded from PostgreSQL 17.10
set synchronous_commit = on;
\pset format unaligned
create table t(a int primary key, b text);
create publication p for table t;
select slot_name from pg_create_logical_replication_slot('d','test_decoding');
select slot_name from pg_create_logical_replication_slot('o','pgoutput');
select pg_typeof(pg_logical_emit_message(true,'pre','one'));
select 1 from pg_logical_emit_message(false,'pre','two');
select 1 from pg_logical_emit_message(true,'pre','\x0001ff'::bytea);
begin; select 1 from pg_logical_emit_message(true,'p1','in it'); insert into t values(1,'x'); select 1 from pg_logical_emit_message(false,'p2','outside'); insert into t values(2,'y'); select 1 from pg_logical_emit_message(true,'p3','last'); commit;
begin; insert into t values(3,'x'); select 1 from pg_logical_emit_message(false,'p2','kept'); select 1 from pg_logical_emit_message(true,'p2','gone'); rollback;
begin; select 1 from pg_logical_emit_message(false,'p2','kept'); insert into t values(3,'x'); rollback;
begin; insert into t values(4,'x'); savepoint a; select 1 from pg_logical_emit_message(false,'p2','kept2'); select 1 from pg_logical_emit_message(true,'p2','gone2'); rollback to a; commit;
begin; insert into t values(5,'x'); select 1 from pg_logical_emit_message(false,'p2','kept3'); select 1/0; rollback;
select 1 from pg_logical_emit_message(null,'p2','gone');
select pg_logical_emit_message(true,'','') is not null, pg_logical_emit_message(false,'','',true) is not null;
begin read only;
select 1 from pg_logical_emit_message(true,'ro','ro');
commit;
select count(*) from (select pg_logical_emit_message(true,'same','same') from generate_series(1,2)) x;
select data from pg_logical_slot_peek_changes('d',null,null,'include-xids','0','skip-empty-xacts','1');
select data from pg_logical_slot_get_changes('d',null,1,'include-xids','0','skip-empty-xacts','1');
select xid = '0', data from pg_logical_slot_get_changes('d',null,1,'include-xids','0','skip-empty-xacts','1');
select substr(encode(data,'escape'),1,1), length(data), get_byte(data,1) from pg_logical_slot_peek_binary_changes('o',null,null,'proto_version','1','publication_names','p','messages','true');
select substr(encode(data,'escape'),1,1), length(data) from pg_logical_slot_peek_binary_changes('o',null,null,'proto_version','1','publication_names','p');
select substr(data, 11) from pg_logical_slot_peek_binary_changes('o',null,null,'proto_version','1','publication_names','p','messages','on') where get_byte(data,0) = 77;
select pg_drop_replication_slot('d'), pg_drop_replication_slot('o');
