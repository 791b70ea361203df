"""The local stack: services in processes of their own, started, kept running, and stopped in order."""
