"""HTTPS calls as kube-apiserver makes them, with Go's error messages.

They reach webhooks and the backends of controllers. Nothing here depends on reviews.
"""
