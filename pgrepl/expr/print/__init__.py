"""Typed trees and definitions as text, as PostgreSQL prints them (ruleutils.c). Begin with `deparse`."""
