"""Writing a statement's rows: data files, delete files and deletion vectors with their statistics. Files are staged
first; nothing refers to them before the commit."""
