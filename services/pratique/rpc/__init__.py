"""gRPC: what services and their callers share. Controllers know nothing of it."""
