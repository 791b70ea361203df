"""EndpointSlices."""

from __future__ import annotations

from pratique.registry.validation.kind_validation import ValidationTable

VALIDATIONS: ValidationTable = {}
