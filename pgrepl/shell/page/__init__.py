"""The page that a person opens first: one HTML file without foreign parts, by a server or by `pgrepl status --html`.

words    texts made fit for HTML, whatever a table is called; a subscription's state in a word
drawing  the graph of databases and subscriptions, and curves, as SVG
render   the page
data/    its style, and the few lines of script that fetch it anew
"""
