"""The objects that controllers look up: the store, what fills it, and what an API server knows of their kinds."""
