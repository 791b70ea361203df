"""HTTP: the application, its endpoints, connections and callers."""
