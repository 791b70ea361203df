"""Validation of built-in kinds: a module for each concept, and for each API group that has rules of its own."""
