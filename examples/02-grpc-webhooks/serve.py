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


class Sidecar(MUTATOR_SERVICE.MutatorServiceServicer):
    """Adds a sidecar to Pods with the annotation for it."""

    def Mutate(self, request, context):
        outcomes = [
            self.outcome(call.name, json.loads(request.review.object)) for call in request.controllers
        ]
        return MUTATOR.MutateResponse(steps=outcomes)

    def outcome(self, name, pod):
        wanted = pod["metadata"].get("annotations", {}).get("example.com/sidecar") == "yes"
        containers = pod["spec"]["containers"]
        if not wanted or any(container["name"] == "sidecar" for container in containers):
            return OUTCOME.Outcome(controller=name, allowed=OUTCOME.Allowed())
        sidecar = {"name": "sidecar", "image": "registry.example/sidecar:1.0"}
        patch = [{"op": "add", "path": f"/spec/containers/{len(containers)}", "value": sidecar}]
        return OUTCOME.Outcome(controller=name, patched=OUTCOME.Patched(patch=json.dumps(patch).encode()))


class Registry(VALIDATOR_SERVICE.ValidatorServiceServicer):
    """Denies images from other registries."""

    def Validate(self, request, context):
        verdicts = [
            self.verdict(call.name, json.loads(request.review.object)) for call in request.controllers
        ]
        return VALIDATOR.ValidateResponse(verdicts=verdicts)

    def verdict(self, name, pod):
        strange = [
            c["image"] for c in pod["spec"]["containers"] if not c["image"].startswith("registry.example/")
        ]
        if not strange:
            return OUTCOME.Outcome(controller=name, allowed=OUTCOME.Allowed())
        status = OUTCOME.Status(
            code=403, reason="Forbidden", message=f"not from our registry: {', '.join(strange)}"
        )
        return OUTCOME.Outcome(controller=name, denied=OUTCOME.Denied(status=status))


server = grpc.server(futures.ThreadPoolExecutor(max_workers=4))
MUTATOR_SERVICE.add_MutatorServiceServicer_to_server(Sidecar(), server)
VALIDATOR_SERVICE.add_ValidatorServiceServicer_to_server(Registry(), server)
port = server.add_insecure_port("127.0.0.1:18902")
server.start()
print(f"ready on {port}", flush=True)
server.wait_for_termination()
