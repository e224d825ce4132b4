"""Analysis of expressions: names are resolved, operators and functions are found, casts are inserted; raw parse trees
become typed trees (parse_expr.c and its siblings). Begin with `analyze`."""
