"""Ingresses, NetworkPolicies, IngressClasses, IPAddresses and ServiceCIDRs."""

from __future__ import annotations

from pratique.registry.validation.kind_validation import ValidationTable

VALIDATIONS: ValidationTable = {}
