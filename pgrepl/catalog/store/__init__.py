"""The SQL database of the catalog: its tables and row classes, connecting to it, making and migrating it, rows read
and written by equality of columns, and its checks."""
