"""jsonpath, the path language of SQL/JSON: its text, and the items that a path is made of.

    scanner   characters → tokens (jsonpath_scan.l)
    parser    the input function: tokens → items (jsonpath_gram.y); items → the canonical text, which is the value
              (jsonpath_out)

What a path finds in a document is computed in expr/functions/documents.
"""
