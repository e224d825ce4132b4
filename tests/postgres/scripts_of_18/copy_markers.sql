-- \. in the data of COPY FROM
CREATE TABLE t (a text);
COPY t FROM PROGRAM $$printf '1\n\\.\n2\n'$$ (FORMAT text);
\! printf '1\n\\.\n2\n' > file
\copy t FROM file (FORMAT text)
COPY t FROM PROGRAM $$printf '1\n\\.\n2\n'$$ (FORMAT csv);
\! printf '1\n\\.\n2\n' > file
\copy t FROM file (FORMAT csv)
COPY t FROM PROGRAM $$printf '1\n\\.x\n2\n'$$ (FORMAT text);
\! printf '1\n\\.x\n2\n' > file
\copy t FROM file (FORMAT text)
COPY t FROM PROGRAM $$printf '1\n\\.x\n2\n'$$ (FORMAT csv);
\! printf '1\n\\.x\n2\n' > file
\copy t FROM file (FORMAT csv)
COPY t FROM PROGRAM $$printf '1\\.\n2\n'$$ (FORMAT text);
\! printf '1\\.\n2\n' > file
\copy t FROM file (FORMAT text)
COPY t FROM PROGRAM $$printf '1\\.\n2\n'$$ (FORMAT csv);
\! printf '1\\.\n2\n' > file
\copy t FROM file (FORMAT csv)
COPY t FROM PROGRAM $$printf '1\n\\.'$$ (FORMAT text);
\! printf '1\n\\.' > file
\copy t FROM file (FORMAT text)
COPY t FROM PROGRAM $$printf '1\n\\.'$$ (FORMAT csv);
\! printf '1\n\\.' > file
\copy t FROM file (FORMAT csv)
COPY t FROM PROGRAM $$printf '1\r\n\\.\n'$$ (FORMAT text);
\! printf '1\r\n\\.\n' > file
\copy t FROM file (FORMAT text)
COPY t FROM PROGRAM $$printf '1\r\n\\.\n'$$ (FORMAT csv);
\! printf '1\r\n\\.\n' > file
\copy t FROM file (FORMAT csv)
COPY t FROM PROGRAM $$printf '1\r\n\\.\r\n2\r\n'$$ (FORMAT text);
\! printf '1\r\n\\.\r\n2\r\n' > file
\copy t FROM file (FORMAT text)
COPY t FROM PROGRAM $$printf '1\r\n\\.\r\n2\r\n'$$ (FORMAT csv);
\! printf '1\r\n\\.\r\n2\r\n' > file
\copy t FROM file (FORMAT csv)
COPY t FROM PROGRAM $$printf '\\.\n1\n'$$ (FORMAT text);
\! printf '\\.\n1\n' > file
\copy t FROM file (FORMAT text)
COPY t FROM PROGRAM $$printf '\\.\n1\n'$$ (FORMAT csv);
\! printf '\\.\n1\n' > file
\copy t FROM file (FORMAT csv)
COPY t FROM PROGRAM $$printf 'x\\.y\n'$$ (FORMAT text);
\! printf 'x\\.y\n' > file
\copy t FROM file (FORMAT text)
COPY t FROM PROGRAM $$printf 'x\\.y\n'$$ (FORMAT csv);
\! printf 'x\\.y\n' > file
\copy t FROM file (FORMAT csv)
COPY t FROM PROGRAM $$printf '1\n"\\."\n'$$ (FORMAT text);
\! printf '1\n"\\."\n' > file
\copy t FROM file (FORMAT text)
COPY t FROM PROGRAM $$printf '1\n"\\."\n'$$ (FORMAT csv);
\! printf '1\n"\\."\n' > file
\copy t FROM file (FORMAT csv)
COPY t FROM PROGRAM $$printf '1\n"a\n\\.\nb"\n2\n'$$ (FORMAT text);
\! printf '1\n"a\n\\.\nb"\n2\n' > file
\copy t FROM file (FORMAT text)
COPY t FROM PROGRAM $$printf '1\n"a\n\\.\nb"\n2\n'$$ (FORMAT csv);
\! printf '1\n"a\n\\.\nb"\n2\n' > file
\copy t FROM file (FORMAT csv)
COPY t FROM PROGRAM $$printf '1\n\\.\r\n2\n'$$ (FORMAT text);
\! printf '1\n\\.\r\n2\n' > file
\copy t FROM file (FORMAT text)
COPY t FROM PROGRAM $$printf '1\n\\.\r\n2\n'$$ (FORMAT csv);
\! printf '1\n\\.\r\n2\n' > file
\copy t FROM file (FORMAT csv)
COPY t FROM PROGRAM $$printf '1\r\\.\r2\r'$$ (FORMAT text);
\! printf '1\r\\.\r2\r' > file
\copy t FROM file (FORMAT text)
COPY t FROM PROGRAM $$printf '1\r\\.\r2\r'$$ (FORMAT csv);
\! printf '1\r\\.\r2\r' > file
\copy t FROM file (FORMAT csv)
COPY t FROM PROGRAM $$printf '1\n\\. \n2\n'$$ (FORMAT text);
\! printf '1\n\\. \n2\n' > file
\copy t FROM file (FORMAT text)
COPY t FROM PROGRAM $$printf '1\n\\. \n2\n'$$ (FORMAT csv);
\! printf '1\n\\. \n2\n' > file
\copy t FROM file (FORMAT csv)
SELECT * FROM t;
TRUNCATE t;
COPY t FROM stdin (FORMAT csv);
1
\.
COPY t FROM stdin (FORMAT csv);
"1
\.
COPY t FROM stdin;
1
\.
SELECT * FROM t;
COPY (SELECT '\.') TO stdout (FORMAT csv);
