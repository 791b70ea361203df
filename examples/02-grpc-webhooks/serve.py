"""A mutator and a validator that use only Pratique's .proto files.

Any language with gRPC works. This script reads the .proto files when it starts and serves both services on one port.
"""

import json
import sys
from concurrent import futures
from pathlib import Path

import grpc

sys.path.insert(0, str(Path(__file__).parents[2] / "proto"))
MUTATOR, MUTATOR_SERVICE = grpc.protos_and_services("pratique/admission/v1/mutator_service.proto")
VALIDATOR, VALIDATOR_SERVICE = grpc.protos_and_services("pratique/admission/v1/validator_service.proto")
OUTCOME = grpc.protos("pratique/admission/v1/outcome.proto")


REVIEW = grpc.protos("pratique/admission/v1/review.proto")
MAX_MESSAGE_BYTES = 16 * 1024 * 1024
NO_DEADLINE_SECONDS = 100_000_000  # what gRPC says for a call without one is longer


def read(request, context):
    """Return the object, or None; refuse what breaks the contract. Answers never quote an object: it may be secret."""
    review = request.review
    remaining = context.time_remaining()
    checks = {
        "the call needs a deadline": remaining is not None and remaining < NO_DEADLINE_SECONDS,
        "review is required": request.HasField("review"),
        "controllers are required": request.controllers,
        "review.uid is required": review.uid,
        "review.operation is required": review.operation in REVIEW.Operation.values()[1:],
        "review.kind is required": review.kind.kind,
        "review.resource is required": review.resource.resource,
        "timeout_millis is negative": all(call.timeout_millis >= 0 for call in request.controllers),
    }
    for text, holds in checks.items():
        if not holds:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, text)
    try:
        return json.loads(review.object or b"null")
    except ValueError:
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, "review.object is not JSON")


def decide(name, pod, decision):
    """Return what a controller decides. What it cannot do is its own outcome, and the call goes on."""
    if pod is None:  # a DELETE has only an old object
        return OUTCOME.Outcome(controller=name, allowed=OUTCOME.Allowed())
    try:
        return OUTCOME.Outcome(controller=name, **decision(pod))
    except (KeyError, TypeError, AttributeError):
        failed = OUTCOME.Failed(kind=OUTCOME.Failed.KIND_ERROR, message="the object is no Pod")
        return OUTCOME.Outcome(controller=name, failed=failed)


class Sidecar(MUTATOR_SERVICE.MutatorServiceServicer):
    """Adds a sidecar to Pods with the annotation for it."""

    def Mutate(self, request, context):
        pod = read(request, context)
        response = MUTATOR.MutateResponse(uid=request.review.uid)
        for call in request.controllers:  # each gets the object as the one before it has left it
            response.steps.append(decide(call.name, pod, self.add_sidecar))
            if response.steps[-1].HasField("failed"):
                break
        return response

    def add_sidecar(self, pod):
        wanted = pod["metadata"].get("annotations", {}).get("example.com/sidecar") == "yes"
        containers = pod["spec"]["containers"]
        if not wanted or any(container["name"] == "sidecar" for container in containers):
            return {"allowed": OUTCOME.Allowed()}
        sidecar = {"name": "sidecar", "image": "registry.example/sidecar:1.0"}
        patch = [{"op": "add", "path": f"/spec/containers/{len(containers)}", "value": sidecar}]
        containers.append(sidecar)
        return {"patched": OUTCOME.Patched(patch=json.dumps(patch).encode())}


class Registry(VALIDATOR_SERVICE.ValidatorServiceServicer):
    """Denies images from other registries."""

    def Validate(self, request, context):
        pod = read(request, context)
        outcomes = [decide(call.name, pod, self.check_images) for call in request.controllers]
        return VALIDATOR.ValidateResponse(uid=request.review.uid, verdicts=outcomes)

    def check_images(self, pod):
        strange = [
            c["image"] for c in pod["spec"]["containers"] if not c["image"].startswith("registry.example/")
        ]
        if not strange:
            return {"allowed": OUTCOME.Allowed()}
        message = f"not from our registry: {', '.join(strange)}"
        return {
            "denied": OUTCOME.Denied(status=OUTCOME.Status(code=403, reason="Forbidden", message=message))
        }


LIMITS = [
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
]
server = grpc.server(futures.ThreadPoolExecutor(max_workers=4), options=LIMITS)
MUTATOR_SERVICE.add_MutatorServiceServicer_to_server(Sidecar(), server)
VALIDATOR_SERVICE.add_ValidatorServiceServicer_to_server(Registry(), server)
port = server.add_insecure_port(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:18902")
server.start()
print(f"ready on {port}", flush=True)
server.wait_for_termination()
