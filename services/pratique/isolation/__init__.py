"""Isolation: other people's controllers in processes of their own, which may spin, crash or be killed."""
