\dA
\dC date
\dC jsonpath
\dc
\dd
\dl
\lo_list
\do
\do nosuch
\dP
\dPt
\dPi
\dPn
\dX
\dy
\sv
CREATE TABLE t (id int primary key, d jsonb);
CREATE VIEW vv AS SELECT id, d->>'a' AS a FROM t;
CREATE VIEW v2 WITH (security_barrier=true, check_option=local) AS SELECT id FROM t WHERE id > 1;
\sv vv
\sv+ vv
\sv v2
\sv t
\sv nosuch
CREATE TABLE pt (a int PRIMARY KEY) PARTITION BY RANGE (a);
CREATE TABLE pt1 PARTITION OF pt FOR VALUES FROM (1) TO (10) PARTITION BY RANGE (a);
\dP
\dPn
\dP pt*
\dPi
\dPt pt
COMMENT ON CONSTRAINT t_pkey ON t IS 'the key';
\dd
\dd t_*
\dx+
\dx+ plpg*
\dx+ nosuch
