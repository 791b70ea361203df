"""ValidatingAdmissionPolicy and MutatingAdmissionPolicy, compiled once and evaluated for each review."""
