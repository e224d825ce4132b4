"""Dates, times and intervals: arithmetic, fields, zones, and their text by templates."""
