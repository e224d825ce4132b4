"""Reading a table at a snapshot in this process: which files and row groups (bounds, files, footers), which rows of
them (data_file, inlined, file_scan), look-ups by key (local), the parts that kernels read (part), and how a table is
divided into them (extent)."""
