"""HTTPS as kube-apiserver speaks it to others, with Go's words for what fails.

Webhooks and backends of controllers are called through it. It knows nothing of reviews.
"""
