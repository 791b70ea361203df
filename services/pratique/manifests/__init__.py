"""From a manifest to the review that an API server would make of it."""
