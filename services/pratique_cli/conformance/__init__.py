"""The conformance kit: checks whether a service in any language keeps the contract in ``proto/``."""
