"""The front door: AdmissionReviews over HTTP, decided by the chain."""
