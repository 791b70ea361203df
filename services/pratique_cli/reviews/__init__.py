"""Reviewing documents offline: inputs, requests, expansion of workloads, and the run over all documents."""
