"""Connection strings as libpq reads them: keywords and URIs, several hosts, `options`.

Rule of the room: order, defaults and messages are libpq's; nothing here opens a connection.
"""
