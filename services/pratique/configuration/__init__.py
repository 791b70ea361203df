"""Webhook and policy configurations: loading, defaults, validation."""
