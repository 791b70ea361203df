"""Certificates for development and for small clusters: an authority, and what it signs."""
