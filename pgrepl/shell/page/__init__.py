"""The page that a person opens first: one HTML file without foreign parts, by a server or by `pgrepl status --html`.

Read render.py (the page), drawing.py (graph and curves as SVG), words.py (texts fit for HTML); data/ has its style
and script.
"""
