"""Dates, times and intervals: their input in nearly any spelling, time zones, their output in each style."""
