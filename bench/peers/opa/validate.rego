# The restricted level of the Pod Security Standards: rules/restricted.py, in Rego. A webhook posts its AdmissionReview to
# /v0/data/bench/validate/review, whose answer is the document `review`.
package bench.validate

volumes := {
	"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral",
	"persistentVolumeClaim", "projected", "secret", "name",
}

sysctls := {
	"kernel.shm_rmid_forced",
	"net.ipv4.ip_local_port_range",
	"net.ipv4.ip_unprivileged_port_start",
	"net.ipv4.tcp_syncookies",
	"net.ipv4.ping_group_range",
	"net.ipv4.ip_local_reserved_ports",
	"net.ipv4.tcp_keepalive_time",
	"net.ipv4.tcp_fin_timeout",
	"net.ipv4.tcp_keepalive_intvl",
	"net.ipv4.tcp_keepalive_probes",
	"net.ipv4.tcp_rmem",
	"net.ipv4.tcp_wmem",
	"net.ipv4.tcp_slow_start_after_idle",
	"net.ipv4.tcp_notsent_lowat",
}

selinux_types := {"", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"}

profiles := {"RuntimeDefault", "Localhost"}

app_armor := "container.apparmor.security.beta.kubernetes.io/"

review := {
	"apiVersion": input.apiVersion,
	"kind": "AdmissionReview",
	"response": response,
}

response := {"uid": input.request.uid, "allowed": true} if count(deny) == 0

response := {
	"uid": input.request.uid,
	"allowed": false,
	"status": {"code": 403, "message": concat("; ", deny)},
} if {
	count(deny) > 0
}

pod := input.request.object

pod_context := object.get(pod.spec, "securityContext", {})

containers contains container if {
	some kind in ["initContainers", "containers", "ephemeralContainers"]
	some container in pod.spec[kind]
}

context(container) := object.get(container, "securityContext", {})

# the Pod and each container, by what messages call them
contexts contains {"who": "the Pod", "context": pod_context}

contexts contains {"who": container.name, "context": context(container)} if some container in containers

deny contains sprintf("%s is true", [name]) if {
	some name in ["hostNetwork", "hostPID", "hostIPC"]
	pod.spec[name] == true
}

deny contains sprintf("volume %s is a %s", [volume.name, kind]) if {
	some volume in pod.spec.volumes
	some kind in (object.keys(volume) - volumes)
}

deny contains sprintf("sysctl %s", [sysctl.name]) if {
	some sysctl in pod_context.sysctls
	not sysctl.name in sysctls
}

deny contains sprintf("AppArmor profile %s", [value]) if {
	some name, value in pod.metadata.annotations
	startswith(name, app_armor)
	not value in {"", "runtime/default"}
	not startswith(value, "localhost/")
}

deny contains sprintf("%s sets SELinux options", [part.who]) if {
	some part in contexts
	options := part.context.seLinuxOptions
	forbidden_selinux(options)
}

forbidden_selinux(options) if not object.get(options, "type", "") in selinux_types

forbidden_selinux(options) if object.get(options, "user", "") != ""

forbidden_selinux(options) if object.get(options, "role", "") != ""

deny contains sprintf("%s has profile %s", [part.who, type]) if {
	some part in contexts
	some kind in ["seccompProfile", "appArmorProfile"]
	type := part.context[kind].type
	not type in profiles
}

deny contains sprintf("%s runs as root", [part.who]) if {
	some part in contexts
	part.context.runAsUser == 0
}

deny contains sprintf("%s is privileged", [container.name]) if {
	some container in containers
	context(container).privileged == true
}

deny contains sprintf("%s sets procMount", [container.name]) if {
	some container in containers
	context(container).procMount != "Default"
}

deny contains sprintf("%s uses a port of the host", [container.name]) if {
	some container in containers
	some port in container.ports
	object.get(port, "hostPort", 0) != 0
}

deny contains sprintf("%s may escalate privileges", [container.name]) if {
	some container in containers
	object.get(context(container), "allowPrivilegeEscalation", true) != false
}

deny contains sprintf("%s does not drop all capabilities", [container.name]) if {
	some container in containers
	not "ALL" in object.get(context(container), ["capabilities", "drop"], [])
}

deny contains sprintf("%s adds capabilities", [container.name]) if {
	some container in containers
	some capability in context(container).capabilities.add
	capability != "NET_BIND_SERVICE"
}

deny contains sprintf("%s may run as root", [container.name]) if {
	some container in containers
	not object.get(context(container), "runAsNonRoot", object.get(pod_context, "runAsNonRoot", false)) == true
}

deny contains sprintf("%s has no seccomp profile", [container.name]) if {
	some container in containers
	not context(container).seccompProfile
	not pod_context.seccompProfile
}

deny contains sprintf("%s probes another host", [container.name]) if {
	some container in containers
	some handler in handlers(container)
	some kind in ["httpGet", "tcpSocket"]
	object.get(handler, [kind, "host"], "") != ""
}

handlers(container) := array.concat(
	[container[kind] | some kind in ["livenessProbe", "readinessProbe", "startupProbe"]],
	[handler | some handler in object.get(container, "lifecycle", {})],
)
