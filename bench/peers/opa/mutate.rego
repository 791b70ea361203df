# A label and a sidecar, as JSON patches in Rego: a webhook posts its AdmissionReview to /v0/data/bench/mutate/review.
package bench.mutate

label := "bench.example.com/injected"

sidecar := {
	"name": "sidecar",
	"image": "registry.example/sidecar:1.0",
	"securityContext": {
		"allowPrivilegeEscalation": false,
		"runAsNonRoot": true,
		"capabilities": {"drop": ["ALL"]},
		"seccompProfile": {"type": "RuntimeDefault"},
	},
}

review := {
	"apiVersion": input.apiVersion,
	"kind": "AdmissionReview",
	"response": {
		"uid": input.request.uid,
		"allowed": true,
		"patchType": "JSONPatch",
		"patch": base64.encode(json.marshal(array.concat(label_patch, sidecar_patch))),
	},
}

pod := input.request.object

label_patch := [{"op": "add", "path": "/metadata/labels", "value": labels}] if {
	labels := object.union(object.get(pod.metadata, "labels", {}), {label: "true"})
}

default sidecar_patch := []

sidecar_patch := [{"op": "add", "path": "/spec/containers/-", "value": sidecar}] if {
	not has_sidecar
}

has_sidecar if {
	some container in pod.spec.containers
	container.name == "sidecar"
}
