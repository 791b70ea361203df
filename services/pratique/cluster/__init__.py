"""The cluster's objects as controllers look them up: the store, what fills it, and the kinds an API server knows."""
