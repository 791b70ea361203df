"""Rules of good practice: what the API server accepts in configurations, and is unwise all the same."""
