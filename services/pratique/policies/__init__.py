"""ValidatingAdmissionPolicy and MutatingAdmissionPolicy: compiled once, decided for each review."""
