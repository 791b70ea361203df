"""Decision documents: how a decision is shown, as JSON values and as encoded JSON."""

from __future__ import annotations

import functools

import msgspec

from pratique.apimachinery import statuses
from pratique.apimachinery.json_values import JSON, JSONObject, encode
from pratique_frontdoor.chain.decisions import Decision, Shadow, Step, Violation


def to_document(decision: Decision) -> JSONObject:
    """Return the decision document, as ``-o json`` and ``POST /explain`` show it."""
    return {
        "uid": decision.uid,
        "allowed": decision.allowed,
        "status": statuses.to_document(decision.status) if decision.status else None,
        "object": decision.object_document.data,
        "patch": list(decision.patch),
        "warnings": list(decision.warnings),
        "auditAnnotations": dict(decision.audit_annotations),
        "steps": [_step_document(step) for step in decision.steps],
        "expanded": [to_document(pod) for pod in decision.expanded],
    }


def _step_document(step: Step) -> JSON:
    limit = {} if step.timeout_seconds is None else {"timeoutMs": round(step.timeout_seconds * 1000)}
    return {
        "controller": step.controller,
        "phase": str(step.phase),
        "name": step.name,
        "configuration": step.configuration,
        "round": step.round,
        "outcome": str(step.outcome),
        "reason": step.reason,
        "patch": list(step.patch),
        "durationMs": round(step.duration_seconds * 1000, 3),
        "endpoint": step.endpoint,
        **limit,
        **({} if step.shadow is None else {"shadow": _shadow_document(step.shadow)}),
        **({} if step.violation is None else {"violation": _violation_document(step.violation)}),
    }


def _violation_document(violation: Violation) -> JSON:
    return {"allowList": violation.allow_list, "action": str(violation.action)}


def _shadow_document(shadow: Shadow) -> JSON:
    return {"rollout": shadow.rollout, "outcome": str(shadow.outcome), "patch": list(shadow.patch)}


_encoder = msgspec.json.Encoder()


def encode_decision(decision: Decision) -> bytes:
    """Return the decision document as compact JSON, floats as Go writes them.

    That is ``encode(to_document(decision))``, but the object is encoded once in a run, and so is a skipped step.
    """
    return _encoder.encode(
        {
            "uid": decision.uid,
            "allowed": decision.allowed,
            "status": _raw(statuses.to_document(decision.status)) if decision.status else None,
            "object": msgspec.Raw(decision.object_document.encoded),
            "patch": _raw(list(decision.patch)) if decision.patch else (),
            "warnings": decision.warnings,
            "auditAnnotations": decision.audit_annotations,
            "steps": [_encoded_step(step) for step in decision.steps],
            "expanded": [msgspec.Raw(encode_decision(pod)) for pod in decision.expanded],
        }
    )


def _raw(value: JSON) -> msgspec.Raw:
    return msgspec.Raw(encode(value))


_CACHED_STEPS = 1024
"""Encoded steps that never ran: of a dozen controllers for each of 80 kinds of requests."""


def _encoded_step(step: Step) -> JSON:
    return _encoded_document(step) if step.ended_at else _encoded_shared_step(step)


@functools.lru_cache(_CACHED_STEPS)
def _encoded_shared_step(step: Step) -> msgspec.Raw:
    return msgspec.Raw(_encoder.encode(_encoded_document(step)))


def _encoded_document(step: Step) -> JSON:
    """Return the document of a step, in which only durations and patches may hold floats."""
    document = _step_document(step)
    milliseconds = document["durationMs"]
    if milliseconds.is_integer():  # and no others are so small or large that Go would write an exponent
        document["durationMs"] = int(milliseconds)
    if step.patch:
        document["patch"] = _raw(document["patch"])
    if step.shadow is not None and step.shadow.patch:
        document["shadow"] = _raw(document["shadow"])
    return document
