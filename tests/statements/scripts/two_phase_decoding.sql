-- prepared transactions as slots tell of them
ALTER SYSTEM SET max_prepared_transactions = 10;
\c test_pub
\pset format unaligned
\pset tuples_only on
CREATE TABLE d1(a int primary key, b text);
create table d2(a int primary key);
create publication dp for table d1;
select 'init' from pg_create_logical_replication_slot('tp', 'test_decoding', false, true);
select 'init' from pg_create_logical_replication_slot('np', 'test_decoding');
select 'init' from pg_create_logical_replication_slot('po', 'pgoutput', false, true);
select 'init' from pg_create_logical_replication_slot('tp3', 'pgoutput');
begin; prepare transaction 'nothing'; commit prepared 'nothing';
begin; select * from d1 for update; prepare transaction 'nothing'; rollback prepared 'nothing';
begin; insert into d2 values(1); prepare transaction 'unpub'; commit prepared 'unpub';
begin; insert into d1 values(1,'x'); prepare transaction 'aborted'; rollback prepared 'aborted';
begin; insert into d1 values(2,'y'); prepare transaction 'good'; 
insert into d2 values(7);
select data from pg_logical_slot_peek_changes('tp',null,null,'skip-empty-xacts','1','include-xids','0');
commit prepared 'good';
select data from pg_logical_slot_get_changes('tp',null,null,'include-xids','0');
select data from pg_logical_slot_get_changes('np',null,null,'include-xids','0');
select substr(data,1,1), length(data) from pg_logical_slot_get_binary_changes('po',null,null,'proto_version','3','publication_names','dp','two_phase','on');
begin; insert into d1 values(3,'z'); prepare transaction 'late_nodecode';
begin; insert into d1 values(4,'z'); prepare transaction 'late';
select data from pg_logical_slot_get_changes('tp',null,null,'include-xids','0');
select substr(data,1,1), length(data) from pg_logical_slot_get_binary_changes('po',null,null,'proto_version','3','publication_names','dp');
commit prepared 'late';
commit prepared 'late_nodecode';
select data from pg_logical_slot_get_changes('tp',null,null,'include-xids','0');
begin; insert into d1 values(5,'z'); prepare transaction 'flip1';
select substr(data,1,1), length(data) from pg_logical_slot_peek_binary_changes('tp3',null,null,'proto_version','3','publication_names','dp');
select two_phase from pg_replication_slots where slot_name='tp3';
begin; insert into d1 values(6,'z'); prepare transaction 'flip2';
select substr(data,1,1), length(data) from pg_logical_slot_peek_binary_changes('tp3',null,null,'proto_version','3','publication_names','dp','two_phase','on');
select two_phase from pg_replication_slots where slot_name='tp3';
select substr(data,1,1), length(data) from pg_logical_slot_get_binary_changes('tp3',null,null,'proto_version','3','publication_names','dp');
rollback prepared 'flip1';
commit prepared 'flip2';
select substr(data,1,1), length(data) from pg_logical_slot_get_binary_changes('tp3',null,null,'proto_version','3','publication_names','dp');
select data from pg_logical_slot_get_changes('np',null,null,'proto','1');
select data from pg_logical_slot_peek_binary_changes('po',null,null,'proto_version','2','publication_names','dp','two_phase','on');
select pg_drop_replication_slot(slot_name) from pg_replication_slots;
ALTER SYSTEM RESET max_prepared_transactions;
