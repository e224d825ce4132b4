"""jsonpath, the path language of SQL/JSON: its text, and the items that a path is made of.

    scanner   characters → tokens (jsonpath_scan.l)
    parser    tokens → items (jsonpath_gram.y), with the checks of jsonpath_in
    printer   items → the canonical text (jsonpath_out)
    text      the input function: a value is its canonical text

What a path finds in a document is computed in `expr/jsonpath`.
"""
