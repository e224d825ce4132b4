create table t (a int primary key, g int generated always as (a * 2) stored);
create publication p for table t with (publish_generated_columns = stored);
alter publication p set (publish_generated_columns);
alter publication p set (publish_generated_columns = none, publish = 'insert');
\dRp
alter publication p set (publish_generated_columns = 'Stored');
\dRp+
select pubname, pubgencols from pg_publication;
select * from pg_publication_tables;
alter publication p set table t (a, g);
select attnames from pg_publication_tables;
alter publication p set table t (g, ctid);
alter publication p set table t (g, g);
\c test_sub
create subscription s connection 'dbname=test_pub' publication p with (connect = false);
create subscription u connection 'dbname=test_pub' publication p with (connect = false, streaming = off, slot_name = none);
\dRs+
alter subscription s set (two_phase = true);
select subname, subtwophasestate, substream from pg_subscription order by 1;
alter subscription u set (two_phase = true);
alter subscription u set (two_phase = false);
alter subscription u set (failover = true);
alter subscription s set (two_phase = false, slot_name = other);
begin;
alter subscription s set (two_phase = false);
rollback;
alter subscription s connection 'host=/nosuch dbname=x';
alter subscription s refresh publication;
alter subscription s set (slot_name = none);
alter subscription u set (two_phase = foo);
select subname, apply_error_count, confl_insert_exists, confl_multiple_unique_conflicts, stats_reset from pg_stat_subscription_stats order by 1;
drop subscription s;
drop subscription u;
show server_version_num;
select uuid_extract_version(uuidv7()), uuid_extract_version(uuidv4()), uuid_extract_version(uuidv7('1 day'));
select uuidv7() < uuidv7(), abs(extract(epoch from uuid_extract_timestamp(uuidv7('-1 hour')) - now()) + 3600) < 60;
select uuid_extract_timestamp('0192e4f8-5b9a-7f1e-8000-000000000000') at time zone 'UTC';
show idle_replication_slot_timeout;
show max_active_replication_origins;
show unix_socket_permissions;
show data_directory_mode;
select name, setting, vartype, min_val, max_val, boot_val, reset_val from pg_settings
where name in ('unix_socket_permissions', 'data_directory_mode') order by name;
