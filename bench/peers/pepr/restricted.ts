// The restricted level of the Pod Security Standards, and a sidecar, as a Pepr capability: rules/restricted.py, in
// TypeScript.
import { Capability, a } from "pepr";

export const Restricted = new Capability({
  name: "restricted",
  description: "The restricted level of the Pod Security Standards, and a sidecar",
});

const VOLUMES = new Set([
  "name", "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret",
]);
const SYSCTLS = new Set([
  "kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_unprivileged_port_start",
  "net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range", "net.ipv4.ip_local_reserved_ports",
  "net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl",
  "net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem",
  "net.ipv4.tcp_slow_start_after_idle", "net.ipv4.tcp_notsent_lowat",
]);
const SELINUX_TYPES = new Set(["", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"]);
const PROFILES = new Set(["RuntimeDefault", "Localhost"]);
const APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/";

// eslint-disable-next-line @typescript-eslint/no-explicit-any
type Json = any;

function problems(pod: Json): string[] {
  const spec = pod.spec;
  const context = spec.securityContext ?? {};
  const found = podProblems(pod, spec, context);
  for (const kind of ["initContainers", "containers", "ephemeralContainers"]) {
    for (const container of spec[kind] ?? []) found.push(...containerProblems(container, context));
  }
  return found;
}

function podProblems(pod: Json, spec: Json, context: Json): string[] {
  const found = ["hostNetwork", "hostPID", "hostIPC"].filter(name => spec[name]).map(name => `${name} is true`);
  for (const volume of spec.volumes ?? []) {
    for (const kind of Object.keys(volume)) {
      if (!VOLUMES.has(kind)) found.push(`volume ${volume.name} is a ${kind}`);
    }
  }
  for (const sysctl of context.sysctls ?? []) {
    if (!SYSCTLS.has(sysctl.name)) found.push(`sysctl ${sysctl.name}`);
  }
  for (const [name, value] of Object.entries<string>(pod.metadata.annotations ?? {})) {
    const known = value === "" || value === "runtime/default" || value.startsWith("localhost/");
    if (name.startsWith(APP_ARMOR) && !known) found.push(`AppArmor profile ${value}`);
  }
  if (context.runAsUser === 0) found.push("the Pod runs as root");
  return [...found, ...contextProblems("the Pod", context)];
}

function contextProblems(who: string, context: Json): string[] {
  const found: string[] = [];
  const selinux = context.seLinuxOptions ?? {};
  if (!SELINUX_TYPES.has(selinux.type ?? "") || selinux.user || selinux.role) found.push(`${who} sets SELinux options`);
  if (context.seccompProfile && !PROFILES.has(context.seccompProfile.type)) {
    found.push(`${who} has seccomp profile ${context.seccompProfile.type}`);
  }
  if (context.appArmorProfile && !PROFILES.has(context.appArmorProfile.type)) {
    found.push(`${who} has AppArmor profile ${context.appArmorProfile.type}`);
  }
  return found;
}

function containerProblems(container: Json, podContext: Json): string[] {
  const name = container.name;
  const context = container.securityContext ?? {};
  const capabilities = context.capabilities ?? {};
  const found = contextProblems(name, context);
  if (context.privileged) found.push(`${name} is privileged`);
  if ((context.procMount ?? "Default") !== "Default") found.push(`${name} sets procMount`);
  if ((container.ports ?? []).some((port: Json) => port.hostPort)) found.push(`${name} uses a port of the host`);
  if (context.allowPrivilegeEscalation !== false) found.push(`${name} may escalate privileges`);
  if (!(capabilities.drop ?? []).includes("ALL")) found.push(`${name} does not drop all capabilities`);
  if ((capabilities.add ?? []).some((one: string) => one !== "NET_BIND_SERVICE")) found.push(`${name} adds capabilities`);
  if (context.runAsUser === 0) found.push(`${name} runs as root`);
  if (!(context.runAsNonRoot ?? podContext.runAsNonRoot)) found.push(`${name} may run as root`);
  if (!(context.seccompProfile ?? podContext.seccompProfile)) found.push(`${name} has no seccomp profile`);
  return [...found, ...probeProblems(name, container)];
}

function probeProblems(name: string, container: Json): string[] {
  const probes = ["livenessProbe", "readinessProbe", "startupProbe"].map(kind => container[kind] ?? {});
  const handlers: Json[] = [...probes, ...Object.values(container.lifecycle ?? {})];
  const actions = handlers.flatMap(handler => [handler.httpGet ?? {}, handler.tcpSocket ?? {}]);
  return actions.filter(action => action.host).map(() => `${name} probes another host`);
}

const SIDECAR = {
  name: "sidecar",
  image: "registry.example/sidecar:1.0",
  securityContext: {
    allowPrivilegeEscalation: false,
    runAsNonRoot: true,
    capabilities: { drop: ["ALL"] },
    seccompProfile: { type: "RuntimeDefault" },
  },
};

Restricted.When(a.Pod)
  .IsCreated()
  .Validate(request => {
    const found = problems(request.Raw);
    return found.length > 0 ? request.Deny(found.join("; "), 403) : request.Approve();
  });

Restricted.When(a.Pod)
  .IsCreated()
  .Mutate(request => {
    request.SetLabel("bench.example.com/injected", "true");
    const containers = request.Raw.spec!.containers;
    if (!containers.some(container => container.name === "sidecar")) containers.push(SIDECAR);
  });
