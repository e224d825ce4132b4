"""Connection strings as libpq reads them: keywords and URIs, several hosts, `options`."""
