"""Webhooks: the AdmissionReview that is sent, and what the API server makes of the answer."""
