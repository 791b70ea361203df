"""Who calls the front door: by certificate, bearer token, or user and password."""
