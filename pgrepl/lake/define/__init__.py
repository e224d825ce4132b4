"""DuckLake's definitions: schemas, views, columns, types, options, tables of inlined rows, brought in line with the
system tables, and definitions of other writers adopted. All of it is rows of the catalog; no file is opened."""
