package main

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

var (
	sysctls = []string{
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
	selinuxTypes = []string{
		"", "container_t", "container_init_t", "container_kvm_t", "container_engine_t",
	}
)

const appArmor = "container.apparmor.security.beta.kubernetes.io/"

// problems says what the restricted level has against a Pod: rules/restricted.py, in Go.
func problems(pod *corev1.Pod) []string {
	found := podProblems(pod)
	context := pod.Spec.SecurityContext
	if context == nil {
		context = &corev1.PodSecurityContext{}
	}
	for _, container := range allContainers(pod) {
		found = append(found, containerProblems(container, context)...)
	}
	return found
}

func allContainers(pod *corev1.Pod) []*corev1.Container {
	var all []*corev1.Container
	for i := range pod.Spec.InitContainers {
		all = append(all, &pod.Spec.InitContainers[i])
	}
	for i := range pod.Spec.Containers {
		all = append(all, &pod.Spec.Containers[i])
	}
	for i := range pod.Spec.EphemeralContainers {
		all = append(all, (*corev1.Container)(&pod.Spec.EphemeralContainers[i].EphemeralContainerCommon))
	}
	return all
}

func podProblems(pod *corev1.Pod) []string {
	var found []string
	spec := &pod.Spec
	if spec.HostNetwork || spec.HostPID || spec.HostIPC {
		found = append(found, "the Pod shares a namespace of the host")
	}
	for i := range spec.Volumes {
		if !allowedVolume(&spec.Volumes[i].VolumeSource) {
			found = append(found, fmt.Sprintf("volume %s is of a forbidden type", spec.Volumes[i].Name))
		}
	}
	for name, value := range pod.Annotations {
		if strings.HasPrefix(name, appArmor) && value != "" && value != "runtime/default" &&
			!strings.HasPrefix(value, "localhost/") {
			found = append(found, "AppArmor profile "+value)
		}
	}
	context := spec.SecurityContext
	if context == nil {
		return found
	}
	for _, sysctl := range context.Sysctls {
		if !slices.Contains(sysctls, sysctl.Name) {
			found = append(found, "sysctl "+sysctl.Name)
		}
	}
	if context.RunAsUser != nil && *context.RunAsUser == 0 {
		found = append(found, "the Pod runs as root")
	}
	return append(found, contextProblems(
		"the Pod", context.SELinuxOptions, context.SeccompProfile, context.AppArmorProfile)...)
}

// allowedVolume: one without a source is an emptyDir by the API server's defaults.
func allowedVolume(source *corev1.VolumeSource) bool {
	return *source == (corev1.VolumeSource{}) || source.ConfigMap != nil || source.CSI != nil ||
		source.DownwardAPI != nil || source.EmptyDir != nil || source.Ephemeral != nil ||
		source.PersistentVolumeClaim != nil || source.Projected != nil || source.Secret != nil
}

// contextProblems says what is wrong with what Pods and containers may both set.
func contextProblems(
	who string, selinux *corev1.SELinuxOptions, seccomp *corev1.SeccompProfile, armor *corev1.AppArmorProfile,
) []string {
	var found []string
	if selinux != nil &&
		(!slices.Contains(selinuxTypes, selinux.Type) || selinux.User != "" || selinux.Role != "") {
		found = append(found, who+" sets SELinux options")
	}
	if seccomp != nil && seccomp.Type != corev1.SeccompProfileTypeRuntimeDefault &&
		seccomp.Type != corev1.SeccompProfileTypeLocalhost {
		found = append(found, who+" has seccomp profile "+string(seccomp.Type))
	}
	if armor != nil && armor.Type != corev1.AppArmorProfileTypeRuntimeDefault &&
		armor.Type != corev1.AppArmorProfileTypeLocalhost {
		found = append(found, who+" has AppArmor profile "+string(armor.Type))
	}
	return found
}

func containerProblems(container *corev1.Container, pod *corev1.PodSecurityContext) []string {
	name, context := container.Name, container.SecurityContext
	if context == nil {
		context = &corev1.SecurityContext{}
	}
	found := contextProblems(name, context.SELinuxOptions, context.SeccompProfile, context.AppArmorProfile)
	if isTrue(context.Privileged) {
		found = append(found, name+" is privileged")
	}
	if context.ProcMount != nil && *context.ProcMount != corev1.DefaultProcMount {
		found = append(found, name+" sets procMount")
	}
	for i := range container.Ports {
		if container.Ports[i].HostPort != 0 {
			found = append(found, name+" uses a port of the host")
		}
	}
	if context.AllowPrivilegeEscalation == nil || *context.AllowPrivilegeEscalation {
		found = append(found, name+" may escalate privileges")
	}
	found = append(found, capabilityProblems(name, context.Capabilities)...)
	if context.RunAsUser != nil && *context.RunAsUser == 0 {
		found = append(found, name+" runs as root")
	}
	nonRoot := context.RunAsNonRoot
	if nonRoot == nil {
		nonRoot = pod.RunAsNonRoot
	}
	if !isTrue(nonRoot) {
		found = append(found, name+" may run as root")
	}
	if context.SeccompProfile == nil && pod.SeccompProfile == nil {
		found = append(found, name+" has no seccomp profile")
	}
	return append(found, probeProblems(container)...)
}

func capabilityProblems(name string, capabilities *corev1.Capabilities) []string {
	if capabilities == nil {
		return []string{name + " does not drop all capabilities"}
	}
	var found []string
	if !slices.Contains(capabilities.Drop, "ALL") {
		found = append(found, name+" does not drop all capabilities")
	}
	for _, added := range capabilities.Add {
		if added != "NET_BIND_SERVICE" {
			found = append(found, name+" adds capabilities")
		}
	}
	return found
}

// probeProblems: handlers of probes and of the lifecycle must not name another host.
func probeProblems(container *corev1.Container) []string {
	var found []string
	for _, probe := range []*corev1.Probe{container.LivenessProbe, container.ReadinessProbe, container.StartupProbe} {
		if probe != nil && namesHost(probe.HTTPGet, probe.TCPSocket) {
			found = append(found, container.Name+" probes another host")
		}
	}
	if container.Lifecycle == nil {
		return found
	}
	for _, hook := range []*corev1.LifecycleHandler{container.Lifecycle.PostStart, container.Lifecycle.PreStop} {
		if hook != nil && namesHost(hook.HTTPGet, hook.TCPSocket) {
			found = append(found, container.Name+" probes another host")
		}
	}
	return found
}

func namesHost(get *corev1.HTTPGetAction, socket *corev1.TCPSocketAction) bool {
	return get != nil && get.Host != "" || socket != nil && socket.Host != ""
}

func isTrue(value *bool) bool {
	return value != nil && *value
}

func addSidecar(pod *corev1.Pod) {
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	pod.Labels["bench.example.com/injected"] = "true"
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name == "sidecar" {
			return
		}
	}
	no, yes := false, true
	pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{
		Name:  "sidecar",
		Image: "registry.example/sidecar:1.0",
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: &no,
			RunAsNonRoot:             &yes,
			Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			SeccompProfile:           &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
	})
}
