BEGIN TRANSACTION;
CREATE TABLE ducklake_snapshot (
	snapshot_id BIGINT, 
	snapshot_time VARCHAR, 
	schema_version BIGINT, 
	next_catalog_id BIGINT, 
	next_file_id BIGINT
);
INSERT INTO "ducklake_snapshot" VALUES(0,'2026-11-21 08:17:07.931087+00:00',0,1,0);
INSERT INTO "ducklake_snapshot" VALUES(1,'2026-11-21 08:17:08.285789+00:00',0,1,0);
INSERT INTO "ducklake_snapshot" VALUES(2,'2026-11-21 08:17:08.299820+00:00',0,1,0);
INSERT INTO "ducklake_snapshot" VALUES(3,'2026-11-21 08:17:08.307150+00:00',0,1,0);
INSERT INTO "ducklake_snapshot" VALUES(4,'2026-11-21 08:17:08.340629+00:00',0,1,0);
INSERT INTO "ducklake_snapshot" VALUES(5,'2026-11-21 08:17:08.374330+00:00',0,1,0);
INSERT INTO "ducklake_snapshot" VALUES(6,'2026-11-21 08:17:08.400266+00:00',0,1,0);
INSERT INTO "ducklake_snapshot" VALUES(7,'2026-11-21 08:17:08.467408+00:00',0,1,0);
CREATE TABLE ducklake_snapshot_changes (
	snapshot_id BIGINT, 
	changes_made TEXT, 
	author TEXT, 
	commit_message TEXT, 
	commit_extra_info TEXT
);
INSERT INTO "ducklake_snapshot_changes" VALUES(0,'created_schema:"main"',NULL,NULL,NULL);
INSERT INTO "ducklake_snapshot_changes" VALUES(1,'',NULL,NULL,NULL);
INSERT INTO "ducklake_snapshot_changes" VALUES(2,'',NULL,NULL,NULL);
INSERT INTO "ducklake_snapshot_changes" VALUES(3,'',NULL,NULL,NULL);
INSERT INTO "ducklake_snapshot_changes" VALUES(4,'',NULL,NULL,NULL);
INSERT INTO "ducklake_snapshot_changes" VALUES(5,'',NULL,NULL,NULL);
INSERT INTO "ducklake_snapshot_changes" VALUES(6,'',NULL,NULL,NULL);
INSERT INTO "ducklake_snapshot_changes" VALUES(7,'',NULL,NULL,NULL);
CREATE TABLE pg_attrdef (
	row_version INTEGER NOT NULL, 
	oid BIGINT, 
	adrelid BIGINT, 
	adnum SMALLINT, 
	adbin JSON, 
	begin_snapshot BIGINT NOT NULL, 
	end_snapshot BIGINT, 
	PRIMARY KEY (row_version)
);
INSERT INTO "pg_attrdef" VALUES(1,16387,16384,3,'{"is": "FuncExpr", "type": 1700, "typmod": 327686, "func": 1703, "args": [{"is": "FuncExpr", "type": 1700, "func": 1740, "args": [{"is": "Const", "type": 23, "value": 1}], "form": "implicit"}, {"is": "Const", "type": 23, "value": 327686}], "form": "implicit"}',1,NULL);
CREATE TABLE pg_attribute (
	row_version INTEGER NOT NULL, 
	attrelid BIGINT, 
	attname VARCHAR, 
	atttypid BIGINT, 
	attnum SMALLINT, 
	atttypmod INTEGER, 
	attndims SMALLINT, 
	attstorage VARCHAR(1), 
	attcompression VARCHAR(1), 
	attnotnull BOOLEAN, 
	atthasdef BOOLEAN, 
	atthasmissing BOOLEAN, 
	attidentity VARCHAR(1), 
	attgenerated VARCHAR(1), 
	attisdropped BOOLEAN, 
	attislocal BOOLEAN, 
	attinhcount SMALLINT, 
	attstattarget SMALLINT, 
	attcollation BIGINT, 
	attacl JSON, 
	attoptions JSON, 
	attmissingval JSON, 
	begin_snapshot BIGINT NOT NULL, 
	end_snapshot BIGINT, 
	PRIMARY KEY (row_version)
);
INSERT INTO "pg_attribute" VALUES(1,16384,'a',23,1,-1,0,'p','',1,0,0,'','',0,1,0,NULL,0,NULL,NULL,NULL,1,NULL);
INSERT INTO "pg_attribute" VALUES(2,16384,'b',1009,2,-1,1,'x','',0,0,0,'','',0,1,0,NULL,100,NULL,NULL,NULL,1,7);
INSERT INTO "pg_attribute" VALUES(3,16384,'c',1700,3,327686,0,'m','',0,1,0,'','',0,1,0,NULL,0,NULL,NULL,NULL,1,NULL);
INSERT INTO "pg_attribute" VALUES(4,16388,'a',23,1,-1,0,'p','',0,0,0,'','',0,1,0,NULL,0,NULL,NULL,NULL,1,NULL);
INSERT INTO "pg_attribute" VALUES(5,16391,'a',23,1,-1,0,'p','',0,0,0,'','',0,1,0,NULL,0,NULL,NULL,NULL,3,NULL);
INSERT INTO "pg_attribute" VALUES(6,16394,'a',23,1,-1,0,'p','',0,0,0,'','',0,0,1,NULL,0,NULL,NULL,NULL,4,NULL);
INSERT INTO "pg_attribute" VALUES(7,16384,'........pg.dropped.2........',0,2,-1,1,'x','',0,0,0,'','',1,1,0,NULL,100,NULL,NULL,NULL,7,NULL);
CREATE TABLE pg_auth_members (
	oid BIGINT, 
	roleid BIGINT, 
	member BIGINT, 
	grantor BIGINT, 
	admin_option BOOLEAN, 
	inherit_option BOOLEAN, 
	set_option BOOLEAN
);
INSERT INTO "pg_auth_members" VALUES(10226,3374,3373,10,0,1,1);
INSERT INTO "pg_auth_members" VALUES(10227,3375,3373,10,0,1,1);
INSERT INTO "pg_auth_members" VALUES(10228,3377,3373,10,0,1,1);
CREATE TABLE pg_authid (
	oid BIGINT, 
	rolname VARCHAR, 
	rolsuper BOOLEAN, 
	rolinherit BOOLEAN, 
	rolcreaterole BOOLEAN, 
	rolcreatedb BOOLEAN, 
	rolcanlogin BOOLEAN, 
	rolreplication BOOLEAN, 
	rolbypassrls BOOLEAN, 
	rolconnlimit INTEGER, 
	rolpassword TEXT, 
	rolvaliduntil VARCHAR
);
INSERT INTO "pg_authid" VALUES(10,'postgres',1,1,1,1,1,1,1,-1,NULL,NULL);
INSERT INTO "pg_authid" VALUES(6171,'pg_database_owner',0,1,0,0,0,0,0,-1,NULL,NULL);
INSERT INTO "pg_authid" VALUES(6181,'pg_read_all_data',0,1,0,0,0,0,0,-1,NULL,NULL);
INSERT INTO "pg_authid" VALUES(6182,'pg_write_all_data',0,1,0,0,0,0,0,-1,NULL,NULL);
INSERT INTO "pg_authid" VALUES(3373,'pg_monitor',0,1,0,0,0,0,0,-1,NULL,NULL);
INSERT INTO "pg_authid" VALUES(3374,'pg_read_all_settings',0,1,0,0,0,0,0,-1,NULL,NULL);
INSERT INTO "pg_authid" VALUES(3375,'pg_read_all_stats',0,1,0,0,0,0,0,-1,NULL,NULL);
INSERT INTO "pg_authid" VALUES(3377,'pg_stat_scan_tables',0,1,0,0,0,0,0,-1,NULL,NULL);
INSERT INTO "pg_authid" VALUES(4569,'pg_read_server_files',0,1,0,0,0,0,0,-1,NULL,NULL);
INSERT INTO "pg_authid" VALUES(4570,'pg_write_server_files',0,1,0,0,0,0,0,-1,NULL,NULL);
INSERT INTO "pg_authid" VALUES(4571,'pg_execute_server_program',0,1,0,0,0,0,0,-1,NULL,NULL);
INSERT INTO "pg_authid" VALUES(4200,'pg_signal_backend',0,1,0,0,0,0,0,-1,NULL,NULL);
INSERT INTO "pg_authid" VALUES(4544,'pg_checkpoint',0,1,0,0,0,0,0,-1,NULL,NULL);
INSERT INTO "pg_authid" VALUES(6337,'pg_maintain',0,1,0,0,0,0,0,-1,NULL,NULL);
INSERT INTO "pg_authid" VALUES(4550,'pg_use_reserved_connections',0,1,0,0,0,0,0,-1,NULL,NULL);
INSERT INTO "pg_authid" VALUES(6304,'pg_create_subscription',0,1,0,0,0,0,0,-1,NULL,NULL);
CREATE TABLE pg_class (
	row_version INTEGER NOT NULL, 
	datid BIGINT, 
	oid BIGINT, 
	relname VARCHAR, 
	relnamespace BIGINT, 
	reltype BIGINT, 
	relowner BIGINT, 
	relam BIGINT, 
	relhasindex BOOLEAN, 
	relpersistence VARCHAR(1), 
	relkind VARCHAR(1), 
	relnatts SMALLINT, 
	relchecks SMALLINT, 
	relhassubclass BOOLEAN, 
	relrowsecurity BOOLEAN, 
	relforcerowsecurity BOOLEAN, 
	relreplident VARCHAR(1), 
	relispartition BOOLEAN, 
	relacl JSON, 
	reloptions JSON, 
	relpartbound JSON, 
	begin_snapshot BIGINT NOT NULL, 
	end_snapshot BIGINT, 
	PRIMARY KEY (row_version)
);
INSERT INTO "pg_class" VALUES(1,5,16384,'t',2200,16386,10,2,1,'p','r',3,0,0,0,0,'d',0,NULL,NULL,NULL,1,NULL);
INSERT INTO "pg_class" VALUES(2,5,16388,'t_pkey',2200,0,10,403,0,'p','i',1,0,0,0,0,'n',0,NULL,NULL,NULL,1,NULL);
INSERT INTO "pg_class" VALUES(3,5,16391,'p',16390,16393,10,0,0,'p','p',1,0,0,0,0,'d',0,NULL,NULL,NULL,3,4);
INSERT INTO "pg_class" VALUES(4,5,16394,'p1',16390,16396,10,2,0,'p','r',1,0,0,0,0,'d',1,NULL,NULL,'{"strategy": "l", "default": true}',4,NULL);
INSERT INTO "pg_class" VALUES(5,5,16391,'p',16390,16393,10,0,0,'p','p',1,0,1,0,0,'d',0,NULL,NULL,NULL,4,NULL);
CREATE TABLE pg_constraint (
	row_version INTEGER NOT NULL, 
	datid BIGINT, 
	oid BIGINT, 
	conname VARCHAR, 
	connamespace BIGINT, 
	contype VARCHAR(1), 
	condeferrable BOOLEAN, 
	condeferred BOOLEAN, 
	convalidated BOOLEAN, 
	conrelid BIGINT, 
	conindid BIGINT, 
	conparentid BIGINT, 
	confrelid BIGINT, 
	confupdtype VARCHAR(1), 
	confdeltype VARCHAR(1), 
	confmatchtype VARCHAR(1), 
	conislocal BOOLEAN, 
	coninhcount SMALLINT, 
	connoinherit BOOLEAN, 
	conkey JSON, 
	confkey JSON, 
	confdelsetcols JSON, 
	conbin JSON, 
	begin_snapshot BIGINT NOT NULL, 
	end_snapshot BIGINT, 
	PRIMARY KEY (row_version)
);
INSERT INTO "pg_constraint" VALUES(1,5,16389,'t_pkey',2200,'p',0,0,1,16384,16388,0,0,' ',' ',' ',1,0,1,'[1]',NULL,NULL,NULL,1,NULL);
CREATE TABLE pg_database (
	oid BIGINT, 
	datname VARCHAR, 
	datdba BIGINT, 
	encoding INTEGER, 
	datlocprovider VARCHAR, 
	datistemplate BOOLEAN, 
	datallowconn BOOLEAN, 
	datconnlimit INTEGER, 
	datcollate VARCHAR, 
	datctype VARCHAR, 
	datacl JSON
);
INSERT INTO "pg_database" VALUES(5,'postgres',10,6,'c',0,1,-1,'C.UTF-8','C.UTF-8',NULL);
INSERT INTO "pg_database" VALUES(1,'template1',10,6,'c',1,1,-1,'C.UTF-8','C.UTF-8','["=c/10", "10=CTc/10"]');
INSERT INTO "pg_database" VALUES(4,'template0',10,6,'c',1,0,-1,'C.UTF-8','C.UTF-8','["=c/10", "10=CTc/10"]');
INSERT INTO "pg_database" VALUES(16397,'shop',10,6,'c',0,1,-1,'C.UTF-8','C.UTF-8',NULL);
CREATE TABLE pg_db_role_setting (
	setdatabase BIGINT, 
	setrole BIGINT, 
	setconfig JSON
);
CREATE TABLE pg_depend (
	datid BIGINT, 
	classid BIGINT, 
	objid BIGINT, 
	objsubid INTEGER, 
	refclassid BIGINT, 
	refobjid BIGINT, 
	refobjsubid INTEGER, 
	deptype VARCHAR(1)
);
INSERT INTO "pg_depend" VALUES(5,1259,16384,0,2615,2200,0,'n');
INSERT INTO "pg_depend" VALUES(5,2604,16387,0,1259,16384,3,'a');
INSERT INTO "pg_depend" VALUES(5,2606,16389,0,1259,16384,1,'a');
INSERT INTO "pg_depend" VALUES(5,1259,16388,0,2606,16389,0,'i');
INSERT INTO "pg_depend" VALUES(5,1259,16391,0,2615,16390,0,'n');
INSERT INTO "pg_depend" VALUES(5,1259,16391,1,1259,16391,0,'i');
INSERT INTO "pg_depend" VALUES(5,1259,16394,0,2615,16390,0,'n');
INSERT INTO "pg_depend" VALUES(5,1259,16394,0,1259,16391,0,'a');
INSERT INTO "pg_depend" VALUES(5,6106,16399,0,6104,16398,0,'a');
INSERT INTO "pg_depend" VALUES(5,6106,16399,0,1259,16384,0,'a');
INSERT INTO "pg_depend" VALUES(5,6106,16399,0,1259,16384,1,'n');
CREATE TABLE pg_description (
	datid BIGINT, 
	objoid BIGINT, 
	classoid BIGINT, 
	objsubid INTEGER, 
	description TEXT
);
INSERT INTO "pg_description" VALUES(5,99,2615,0,'reserved schema for TOAST tables');
INSERT INTO "pg_description" VALUES(5,11,2615,0,'system catalog schema');
INSERT INTO "pg_description" VALUES(5,2200,2615,0,'standard public schema');
INSERT INTO "pg_description" VALUES(1,99,2615,0,'reserved schema for TOAST tables');
INSERT INTO "pg_description" VALUES(1,11,2615,0,'system catalog schema');
INSERT INTO "pg_description" VALUES(1,2200,2615,0,'standard public schema');
INSERT INTO "pg_description" VALUES(4,99,2615,0,'reserved schema for TOAST tables');
INSERT INTO "pg_description" VALUES(4,11,2615,0,'system catalog schema');
INSERT INTO "pg_description" VALUES(4,2200,2615,0,'standard public schema');
INSERT INTO "pg_description" VALUES(16397,99,2615,0,'reserved schema for TOAST tables');
INSERT INTO "pg_description" VALUES(16397,11,2615,0,'system catalog schema');
INSERT INTO "pg_description" VALUES(16397,2200,2615,0,'standard public schema');
CREATE TABLE pg_index (
	row_version INTEGER NOT NULL, 
	indexrelid BIGINT, 
	indrelid BIGINT, 
	indnatts SMALLINT, 
	indnkeyatts SMALLINT, 
	indisunique BOOLEAN, 
	indnullsnotdistinct BOOLEAN, 
	indisprimary BOOLEAN, 
	indisexclusion BOOLEAN, 
	indimmediate BOOLEAN, 
	indisclustered BOOLEAN, 
	indisvalid BOOLEAN, 
	indisready BOOLEAN, 
	indislive BOOLEAN, 
	indisreplident BOOLEAN, 
	indkey JSON, 
	indcollation JSON, 
	indclass JSON, 
	indoption JSON, 
	indexprs JSON, 
	indpred JSON, 
	begin_snapshot BIGINT NOT NULL, 
	end_snapshot BIGINT, 
	PRIMARY KEY (row_version)
);
INSERT INTO "pg_index" VALUES(1,16388,16384,1,1,1,0,1,0,1,0,1,1,1,0,'[1]','[0]','[1978]','[0]',NULL,NULL,1,NULL);
CREATE TABLE pg_inherits (
	row_version INTEGER NOT NULL, 
	inhrelid BIGINT, 
	inhparent BIGINT, 
	inhseqno INTEGER, 
	inhdetachpending BOOLEAN, 
	begin_snapshot BIGINT NOT NULL, 
	end_snapshot BIGINT, 
	PRIMARY KEY (row_version)
);
INSERT INTO "pg_inherits" VALUES(1,16394,16391,1,0,4,NULL);
CREATE TABLE pg_namespace (
	row_version INTEGER NOT NULL, 
	datid BIGINT, 
	oid BIGINT, 
	nspname VARCHAR, 
	nspowner BIGINT, 
	nspacl JSON, 
	begin_snapshot BIGINT NOT NULL, 
	end_snapshot BIGINT, 
	PRIMARY KEY (row_version)
);
INSERT INTO "pg_namespace" VALUES(1,5,99,'pg_toast',10,NULL,0,NULL);
INSERT INTO "pg_namespace" VALUES(2,5,11,'pg_catalog',10,'["10=UC/10", "=U/10"]',0,NULL);
INSERT INTO "pg_namespace" VALUES(3,5,2200,'public',6171,'["6171=UC/6171", "=U/6171"]',0,NULL);
INSERT INTO "pg_namespace" VALUES(4,5,13134,'information_schema',10,'["10=UC/10", "=U/10"]',0,NULL);
INSERT INTO "pg_namespace" VALUES(5,1,99,'pg_toast',10,NULL,0,NULL);
INSERT INTO "pg_namespace" VALUES(6,1,11,'pg_catalog',10,'["10=UC/10", "=U/10"]',0,NULL);
INSERT INTO "pg_namespace" VALUES(7,1,2200,'public',6171,'["6171=UC/6171", "=U/6171"]',0,NULL);
INSERT INTO "pg_namespace" VALUES(8,1,13134,'information_schema',10,'["10=UC/10", "=U/10"]',0,NULL);
INSERT INTO "pg_namespace" VALUES(9,4,99,'pg_toast',10,NULL,0,NULL);
INSERT INTO "pg_namespace" VALUES(10,4,11,'pg_catalog',10,'["10=UC/10", "=U/10"]',0,NULL);
INSERT INTO "pg_namespace" VALUES(11,4,2200,'public',6171,'["6171=UC/6171", "=U/6171"]',0,NULL);
INSERT INTO "pg_namespace" VALUES(12,4,13134,'information_schema',10,'["10=UC/10", "=U/10"]',0,NULL);
INSERT INTO "pg_namespace" VALUES(13,5,16390,'x',10,NULL,2,NULL);
INSERT INTO "pg_namespace" VALUES(14,16397,13134,'information_schema',10,'["10=UC/10", "=U/10"]',5,NULL);
INSERT INTO "pg_namespace" VALUES(15,16397,11,'pg_catalog',10,'["10=UC/10", "=U/10"]',5,NULL);
INSERT INTO "pg_namespace" VALUES(16,16397,99,'pg_toast',10,NULL,5,NULL);
INSERT INTO "pg_namespace" VALUES(17,16397,2200,'public',6171,'["6171=UC/6171", "=U/6171"]',5,NULL);
CREATE TABLE pg_partitioned_table (
	row_version INTEGER NOT NULL, 
	partrelid BIGINT, 
	partstrat VARCHAR(1), 
	partnatts SMALLINT, 
	partdefid BIGINT, 
	partattrs JSON, 
	partclass JSON, 
	partcollation JSON, 
	partexprs JSON, 
	begin_snapshot BIGINT NOT NULL, 
	end_snapshot BIGINT, 
	PRIMARY KEY (row_version)
);
INSERT INTO "pg_partitioned_table" VALUES(1,16391,'l',1,0,'[1]','[1978]','[0]',NULL,3,4);
INSERT INTO "pg_partitioned_table" VALUES(2,16391,'l',1,16394,'[1]','[1978]','[0]',NULL,4,NULL);
CREATE TABLE pg_publication (
	row_version INTEGER NOT NULL, 
	datid BIGINT, 
	oid BIGINT, 
	pubname VARCHAR, 
	pubowner BIGINT, 
	puballtables BOOLEAN, 
	pubinsert BOOLEAN, 
	pubupdate BOOLEAN, 
	pubdelete BOOLEAN, 
	pubtruncate BOOLEAN, 
	pubviaroot BOOLEAN, 
	begin_snapshot BIGINT NOT NULL, 
	end_snapshot BIGINT, 
	PRIMARY KEY (row_version)
);
INSERT INTO "pg_publication" VALUES(1,5,16398,'p',10,0,1,1,1,1,0,6,NULL);
CREATE TABLE pg_publication_namespace (
	row_version INTEGER NOT NULL, 
	datid BIGINT, 
	oid BIGINT, 
	pnpubid BIGINT, 
	pnnspid BIGINT, 
	begin_snapshot BIGINT NOT NULL, 
	end_snapshot BIGINT, 
	PRIMARY KEY (row_version)
);
CREATE TABLE pg_publication_rel (
	row_version INTEGER NOT NULL, 
	oid BIGINT, 
	prpubid BIGINT, 
	prrelid BIGINT, 
	prqual JSON, 
	prattrs JSON, 
	begin_snapshot BIGINT NOT NULL, 
	end_snapshot BIGINT, 
	PRIMARY KEY (row_version)
);
INSERT INTO "pg_publication_rel" VALUES(1,16399,16398,16384,'{"is": "OpExpr", "type": 16, "op": 521, "args": [{"is": "Var", "type": 23, "attnum": 1}, {"is": "Const", "type": 23, "value": 1}]}',NULL,6,NULL);
CREATE TABLE pg_replication_origin (
	roident INTEGER, 
	roname VARCHAR, 
	remote_lsn BIGINT, 
	local_lsn BIGINT
);
CREATE TABLE pg_replication_slot (
	slot_name VARCHAR, 
	plugin VARCHAR, 
	slot_type VARCHAR, 
	datoid BIGINT, 
	"temporary" BOOLEAN, 
	active_pid INTEGER, 
	restart_lsn BIGINT, 
	confirmed_flush_lsn BIGINT, 
	two_phase BOOLEAN, 
	failover BOOLEAN, 
	synced BOOLEAN, 
	inactive_since VARCHAR, 
	conflicting BOOLEAN, 
	invalidation_reason VARCHAR, 
	wal_status VARCHAR, 
	catalog_snapshot BIGINT
);
CREATE TABLE pg_rewrite (
	oid BIGINT, 
	rulename VARCHAR, 
	ev_class BIGINT, 
	ev_action JSON
);
CREATE TABLE pg_sequence (
	seqrelid BIGINT, 
	seqtypid BIGINT, 
	seqstart BIGINT, 
	seqincrement BIGINT, 
	seqmax BIGINT, 
	seqmin BIGINT, 
	seqcache BIGINT, 
	seqcycle BOOLEAN, 
	last_value BIGINT, 
	is_called BOOLEAN
);
CREATE TABLE pg_shdescription (
	objoid BIGINT, 
	classoid BIGINT, 
	description TEXT
);
INSERT INTO "pg_shdescription" VALUES(5,1262,'default administrative connection database');
INSERT INTO "pg_shdescription" VALUES(1,1262,'default template for new databases');
INSERT INTO "pg_shdescription" VALUES(4,1262,'unmodifiable empty database');
CREATE TABLE pg_stat_subscription_stats (
	subid BIGINT, 
	apply_error_count BIGINT, 
	sync_error_count BIGINT, 
	stats_reset VARCHAR
);
CREATE TABLE pg_subscription (
	oid BIGINT, 
	subdbid BIGINT, 
	subskiplsn BIGINT, 
	subname VARCHAR, 
	subowner BIGINT, 
	subenabled BOOLEAN, 
	subbinary BOOLEAN, 
	substream VARCHAR(1), 
	subtwophasestate VARCHAR(1), 
	subdisableonerr BOOLEAN, 
	subpasswordrequired BOOLEAN, 
	subrunasowner BOOLEAN, 
	subfailover BOOLEAN, 
	subconninfo TEXT, 
	subslotname VARCHAR, 
	subsynccommit VARCHAR, 
	subpublications JSON, 
	suborigin VARCHAR
);
CREATE TABLE pg_subscription_rel (
	srsubid BIGINT, 
	srrelid BIGINT, 
	srsubstate VARCHAR(1), 
	srsublsn BIGINT
);
CREATE TABLE pgrepl_instance (
	format_version INTEGER, 
	system_identifier BIGINT, 
	next_oid BIGINT, 
	created_by VARCHAR, 
	change_count BIGINT
);
INSERT INTO "pgrepl_instance" VALUES(1,7710535862954705853,16400,'pgrepl 0.1.0',6);
CREATE TABLE pgrepl_setting (
	name VARCHAR, 
	value TEXT
);
CREATE UNIQUE INDEX ducklake_snapshot_key ON ducklake_snapshot (snapshot_id);
CREATE UNIQUE INDEX ducklake_snapshot_changes_key ON ducklake_snapshot_changes (snapshot_id);
CREATE INDEX pg_authid_ix1 ON pg_authid (rolname);
CREATE UNIQUE INDEX pg_authid_key ON pg_authid (oid);
CREATE INDEX pg_auth_members_ix3 ON pg_auth_members (grantor);
CREATE INDEX pg_auth_members_ix2 ON pg_auth_members (roleid);
CREATE INDEX pg_auth_members_ix1 ON pg_auth_members (member);
CREATE UNIQUE INDEX pg_auth_members_key ON pg_auth_members (oid);
CREATE INDEX pg_db_role_setting_ix1 ON pg_db_role_setting (setrole);
CREATE UNIQUE INDEX pg_db_role_setting_key ON pg_db_role_setting (setdatabase, setrole);
CREATE UNIQUE INDEX pgrepl_setting_key ON pgrepl_setting (name);
CREATE INDEX pg_database_ix1 ON pg_database (datname);
CREATE UNIQUE INDEX pg_database_key ON pg_database (oid);
CREATE INDEX pg_namespace_ix2 ON pg_namespace (nspowner) WHERE end_snapshot IS NULL;
CREATE UNIQUE INDEX pg_namespace_key ON pg_namespace (datid, oid) WHERE end_snapshot IS NULL;
CREATE INDEX pg_namespace_ix1 ON pg_namespace (datid, nspname) WHERE end_snapshot IS NULL;
CREATE INDEX pg_class_ix3 ON pg_class (relowner) WHERE end_snapshot IS NULL;
CREATE INDEX pg_class_ix2 ON pg_class (relnamespace) WHERE end_snapshot IS NULL;
CREATE INDEX pg_class_ix1 ON pg_class (datid, relnamespace, relname) WHERE end_snapshot IS NULL;
CREATE INDEX pg_class_acl ON pg_class (end_snapshot) WHERE relacl IS NOT NULL AND end_snapshot IS NULL;
CREATE UNIQUE INDEX pg_class_key ON pg_class (oid) WHERE end_snapshot IS NULL;
CREATE UNIQUE INDEX pg_attribute_key ON pg_attribute (attrelid, attnum) WHERE end_snapshot IS NULL;
CREATE INDEX pg_attribute_acl ON pg_attribute (end_snapshot) WHERE attacl IS NOT NULL AND end_snapshot IS NULL;
CREATE INDEX pg_attrdef_ix1 ON pg_attrdef (adrelid, adnum) WHERE end_snapshot IS NULL;
CREATE UNIQUE INDEX pg_attrdef_key ON pg_attrdef (oid) WHERE end_snapshot IS NULL;
CREATE INDEX pg_constraint_ix2 ON pg_constraint (confrelid) WHERE end_snapshot IS NULL;
CREATE INDEX pg_constraint_ix4 ON pg_constraint (conparentid) WHERE end_snapshot IS NULL;
CREATE UNIQUE INDEX pg_constraint_key ON pg_constraint (oid) WHERE end_snapshot IS NULL;
CREATE INDEX pg_constraint_ix3 ON pg_constraint (conindid) WHERE end_snapshot IS NULL;
CREATE INDEX pg_constraint_ix5 ON pg_constraint (connamespace, conname) WHERE end_snapshot IS NULL;
CREATE INDEX pg_constraint_ix1 ON pg_constraint (conrelid) WHERE end_snapshot IS NULL;
CREATE UNIQUE INDEX pg_index_key ON pg_index (indexrelid) WHERE end_snapshot IS NULL;
CREATE INDEX pg_index_ix1 ON pg_index (indrelid) WHERE end_snapshot IS NULL;
CREATE INDEX pg_inherits_ix1 ON pg_inherits (inhparent) WHERE end_snapshot IS NULL;
CREATE UNIQUE INDEX pg_inherits_key ON pg_inherits (inhrelid, inhseqno) WHERE end_snapshot IS NULL;
CREATE UNIQUE INDEX pg_partitioned_table_key ON pg_partitioned_table (partrelid) WHERE end_snapshot IS NULL;
CREATE UNIQUE INDEX pg_rewrite_key ON pg_rewrite (oid);
CREATE INDEX pg_rewrite_ix1 ON pg_rewrite (ev_class);
CREATE UNIQUE INDEX pg_sequence_key ON pg_sequence (seqrelid);
CREATE INDEX pg_depend_ix2 ON pg_depend (refclassid, refobjid, refobjsubid);
CREATE INDEX pg_depend_ix1 ON pg_depend (classid, objid, objsubid);
CREATE UNIQUE INDEX pg_description_key ON pg_description (objoid, classoid, objsubid, datid);
CREATE UNIQUE INDEX pg_shdescription_key ON pg_shdescription (objoid, classoid);
CREATE INDEX pg_publication_ix1 ON pg_publication (datid, pubname) WHERE end_snapshot IS NULL;
CREATE INDEX pg_publication_ix2 ON pg_publication (pubowner) WHERE end_snapshot IS NULL;
CREATE UNIQUE INDEX pg_publication_key ON pg_publication (oid) WHERE end_snapshot IS NULL;
CREATE UNIQUE INDEX pg_publication_rel_key ON pg_publication_rel (oid) WHERE end_snapshot IS NULL;
CREATE INDEX pg_publication_rel_ix2 ON pg_publication_rel (prrelid) WHERE end_snapshot IS NULL;
CREATE INDEX pg_publication_rel_ix1 ON pg_publication_rel (prpubid) WHERE end_snapshot IS NULL;
CREATE UNIQUE INDEX pg_publication_namespace_key ON pg_publication_namespace (oid) WHERE end_snapshot IS NULL;
CREATE INDEX pg_publication_namespace_ix1 ON pg_publication_namespace (pnpubid) WHERE end_snapshot IS NULL;
CREATE INDEX pg_publication_namespace_ix2 ON pg_publication_namespace (pnnspid) WHERE end_snapshot IS NULL;
CREATE INDEX pg_subscription_ix1 ON pg_subscription (subdbid, subname);
CREATE UNIQUE INDEX pg_subscription_key ON pg_subscription (oid);
CREATE INDEX pg_subscription_rel_ix1 ON pg_subscription_rel (srsubid);
CREATE UNIQUE INDEX pg_subscription_rel_key ON pg_subscription_rel (srrelid, srsubid);
CREATE UNIQUE INDEX pg_stat_subscription_stats_key ON pg_stat_subscription_stats (subid);
CREATE UNIQUE INDEX pg_replication_slot_key ON pg_replication_slot (slot_name);
CREATE UNIQUE INDEX pg_replication_origin_key ON pg_replication_origin (roident);
CREATE INDEX pg_replication_origin_ix1 ON pg_replication_origin (roname);
COMMIT;
