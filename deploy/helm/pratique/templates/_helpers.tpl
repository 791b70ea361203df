{{- define "pratique.image" -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- end -}}

{{- define "pratique.labels" -}}
app.kubernetes.io/part-of: pratique
{{- end -}}

{{/* What Pods of all services have in common: who they are, and what they may do. */}}
{{- define "pratique.pod" -}}
serviceAccountName: pratique-{{ .service }}
automountServiceAccountToken: {{ and .Values.liveCluster.enabled (ne .service "image-verifier") }}
# PRATIQUE_PORT and the like would be taken for flags
enableServiceLinks: false
# the seconds in which calls are still taken, and the 30 s that a review may last
terminationGracePeriodSeconds: 45
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
affinity:
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      podAffinityTerm:
        topologyKey: kubernetes.io/hostname
        labelSelector: {matchLabels: {app.kubernetes.io/name: pratique-{{ .service }}}}
{{- with .Values.spreadOver }}
topologySpreadConstraints:
{{- range . }}
- maxSkew: 1
  topologyKey: {{ . }}
  whenUnsatisfiable: ScheduleAnyway
  labelSelector: {matchLabels: {app.kubernetes.io/name: pratique-{{ $.service }}}}
{{- end }}
{{- end }}
{{- end -}}

{{/* What Pods of the chain mount. */}}
{{- define "pratique.volumes" -}}
volumes:
- name: tls
  secret: {secretName: pratique-{{ .service }}-tls, defaultMode: 0440}
{{- range $kind := list "config" "cluster" }}
{{- if include "pratique.files" (dict "kind" $kind "root" $) }}
- name: {{ $kind }}
  configMap: {name: pratique-{{ $kind }}}
{{- end }}
{{- end }}
{{- if include "pratique.plugins" . }}
- name: admission
  configMap: {name: pratique-admission}
{{- end }}
{{- with .Values.chain.policies.modules }}
# modules, and what Python needs to find the controllers in them, as in an installed package
- name: policies
  configMap:
    name: pratique-policies
    items:
    - {key: METADATA, path: policies-0.dist-info/METADATA}
    - {key: entry_points.txt, path: policies-0.dist-info/entry_points.txt}
    {{- range $name, $_ := . }}
    - {key: {{ $name }}, path: {{ $name }}}
    {{- end }}
{{- end }}
{{- end -}}

{{/* How much a container may use, and what it may not do. */}}
{{- define "pratique.confined" -}}
resources:
  {{- toYaml .Values.resources | nindent 2 }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end -}}

{{- define "pratique.container" -}}
image: {{ include "pratique.image" . }}
envFrom: [{configMapRef: {name: pratique-chain}}]
{{- if .Values.chain.policies.modules }}
env: [{name: PYTHONPATH, value: /etc/pratique/policies}]
{{- end }}
{{ include "pratique.confined" . }}
volumeMounts:
- {name: tls, mountPath: /etc/pratique/tls, readOnly: true}
{{- range $kind := list "config" "cluster" }}
{{- if include "pratique.files" (dict "kind" $kind "root" $) }}
- {name: {{ $kind }}, mountPath: /etc/pratique/{{ $kind }}, readOnly: true}
{{- end }}
{{- end }}
{{- if include "pratique.plugins" . }}
- {name: admission, mountPath: /etc/pratique/admission, readOnly: true}
{{- end }}
{{- if .Values.chain.policies.modules }}
- {name: policies, mountPath: /etc/pratique/policies, readOnly: true}
{{- end }}
{{- end -}}

{{/* Flags that all services must have alike, beside the variables of pratique-chain. */}}
{{- define "pratique.chain" -}}
{{- range $kind := list "config" "cluster" }}
{{- if include "pratique.files" (dict "kind" $kind "root" $) }}
- --{{ $kind }}=/etc/pratique/{{ $kind }}
{{- end }}
{{- end }}
{{- if include "pratique.plugins" . }}
- --admission-control-config-file=/etc/pratique/admission/admission.yaml
{{- end }}
{{- if .Values.liveCluster.enabled }}
- --in-cluster
- --cluster-staleness={{ .Values.liveCluster.staleness }}
- --authorizer={{ .Values.liveCluster.authorizer }}
{{- end }}
{{- range .Values.liveCluster.policiesFrom }}
- --policies-from={{ . }}
{{- end }}
{{- end -}}

{{/* Pods read variables when they start: other ones need other Pods. */}}
{{- define "pratique.template-metadata" -}}
labels: {app.kubernetes.io/name: pratique-{{ .service }}, app.kubernetes.io/part-of: pratique}
annotations:
  checksum/chain: {{ include "pratique.variables" . | sha256sum | quote }}
  {{- with include "pratique.plugins" . }}
  checksum/admission: {{ sha256sum . | quote }}
  {{- end }}
  {{- if .Values.chain.policies.modules }}
  checksum/policies: {{ toJson .Values.chain.policies | sha256sum | quote }}
  {{- end }}
{{- end -}}

{{- define "pratique.variables" -}}
{{- with .Values.chain.admissionControl }}
PRATIQUE_ADMISSION_CONTROL: {{ join "," . | quote }}
{{- end }}
{{- with .Values.chain.enableAdmissionPlugins }}
PRATIQUE_ENABLE_ADMISSION_PLUGINS: {{ join "," . | quote }}
{{- end }}
{{- with .Values.chain.disableAdmissionPlugins }}
PRATIQUE_DISABLE_ADMISSION_PLUGINS: {{ join "," . | quote }}
{{- end }}
{{- range $name, $value := .Values.chain.variables }}
{{ $name }}: {{ $value | quote }}
{{- end }}
{{- end -}}

{{/* The enabled controllers that the chart knows, as files/controllers.yaml describes them: {items: [...]}. */}}
{{- define "pratique.controllers" -}}
{{- $chain := .Values.chain }}
{{- $found := list }}
{{- range (.Files.Get "files/controllers.yaml" | fromYaml).controllers }}
{{- $byDefault := and (or .default (has .name $chain.enableAdmissionPlugins)) (not (has .name $chain.disableAdmissionPlugins)) }}
{{- if ternary (has .name $chain.admissionControl) $byDefault (not (empty $chain.admissionControl)) }}
{{- $found = append $found . }}
{{- end }}
{{- end }}
{{- dict "items" $found | toJson }}
{{- end -}}

{{/* The plugins of the AdmissionConfiguration; empty without any. */}}
{{- define "pratique.plugins" -}}
{{- $plugins := list }}
{{- $asking := dict }}
{{- if .Values.imageVerifier.enabled }}
{{- $settings := dict "kubeConfigFile" "/etc/pratique/admission/image-verifier.yaml" "allowTTL" .Values.imageVerifier.allowTTL }}
{{- $asking = dict "name" "ImagePolicyWebhook" "configuration" (dict "imagePolicy" $settings) }}
{{- end }}
{{- range .Values.chain.plugins }}
{{- $plugin := deepCopy . }}
{{- if eq .name (get $asking "name") }}
{{- $plugin = merge $plugin $asking }}
{{- $asking = dict }}
{{- end }}
{{- $plugins = append $plugins $plugin }}
{{- end }}
{{- if $asking }}
{{- $plugins = append $plugins $asking }}
{{- end }}
{{- if $plugins }}
{{- toYaml $plugins }}
{{- end }}
{{- end -}}

{{/* The files of --config or --cluster, by name; empty without any. */}}
{{- define "pratique.files" -}}
{{- $files := deepCopy (index .root.Values.chain .kind) }}
{{- if and (eq .kind "config") .root.Values.rollout.mode }}
{{- if hasKey $files "rollout.yaml" }}
{{- fail "chain.config: rollout.yaml is the file that rollout.mode writes; name yours otherwise" }}
{{- end }}
{{- $_ := set $files "rollout.yaml" (include "pratique.rollout" .root) }}
{{- end }}
{{- if $files }}
{{- toYaml $files }}
{{- end }}
{{- end -}}

{{/* The PolicyRollout of the chain's controllers. Those of policies and webhooks cannot be named, only what they run. */}}
{{- define "pratique.rollout" -}}
{{- $rollout := .Values.rollout }}
{{- $policies := $rollout.policies }}
{{- if not $policies }}
{{- $chain := .Values.chain }}
{{- $names := concat (default list $chain.admissionControl) $chain.enableAdmissionPlugins }}
{{- range (include "pratique.controllers" . | fromJson).items }}
{{- $names = append $names .name }}
{{- end }}
{{- $runners := list "MutatingAdmissionPolicy" "MutatingAdmissionWebhook" "ValidatingAdmissionPolicy" "ValidatingAdmissionWebhook" }}
{{- range uniq $names | sortAlpha }}
{{- if has . (list "ResourceQuota" "NamespaceAutoProvision") }}
{{- fail (printf "rollout.policies is required: %s does more than answer, and cannot be in shadow; take it out of the chain, or name what is rolled out" .) }}
{{- else if not (has . $runners) }}
{{- $policies = append $policies (dict "kind" "AdmissionController" "name" .) }}
{{- else if or $chain.config $.Values.liveCluster.policiesFrom }}
{{- fail (printf "rollout.policies is required: name the policies or webhooks that %s runs one by one, and the controllers" .) }}
{{- end }}
{{- end }}
{{- end }}
{{- $spec := dict "mode" $rollout.mode "policies" $policies }}
{{- if eq $rollout.mode "Canary" }}
{{- range $name := list "percent" "namespaces" "namespaceSelector" }}
{{- with index $rollout $name }}
{{- $_ := set $spec $name . }}
{{- end }}
{{- end }}
{{- if eq (len $spec) 2 }}
{{- fail "rollout.mode: Canary needs rollout.percent, rollout.namespaces or rollout.namespaceSelector" }}
{{- end }}
{{- end }}
{{- $metadata := dict "name" "chart" }}
{{- dict "apiVersion" "policy.pratique/v1alpha1" "kind" "PolicyRollout" "metadata" $metadata "spec" $spec | toYaml }}
{{- end -}}

{{/* What a service looks up, by group: {"": [namespaces]}. */}}
{{- define "pratique.lookedUp" -}}
{{- $service := .service }}
{{- $found := dict "apiextensions.k8s.io" (list "customresourcedefinitions") }}
{{- if eq $service "frontdoor" }}
{{- $_ := set $found "" (list "namespaces") }}
{{- end }}
{{- range (include "pratique.controllers" .root | fromJson).items }}
{{- range $group, $resources := index .looksUp $service | default dict }}
{{- $_ := set $found $group (concat (index $found $group | default list) $resources | uniq | sortAlpha) }}
{{- end }}
{{- end }}
{{- if eq .root.Values.liveCluster.authorizer "cluster" }}
{{- $_ := unset $found "rbac.authorization.k8s.io" }}
{{- end }}
{{- toJson $found }}
{{- end -}}

{{/* The name of a Secret with a certificate, as `pratique certs` names it. */}}
{{- define "pratique.secretName" -}}
pratique-{{ lower . | replace "." "-" | replace "_" "-" | trimAll "-" }}-tls
{{- end -}}

{{/* Who may call the front door, with Prometheus where it is monitored. */}}
{{- define "pratique.callers" -}}
{{- $names := .Values.authentication.allowedNames }}
{{- if and $names .Values.monitoring.enabled }}
{{- $names = append $names .Values.monitoring.clientName | uniq }}
{{- end }}
{{- join "," $names }}
{{- end -}}

{{/* The services that have a certificate. */}}
{{- define "pratique.serving" -}}
frontdoor,mutator,validator
{{- if .Values.imageVerifier.enabled -}}
,image-verifier
{{- end -}}
{{- end -}}

{{/* The names by which a service is called, as those in its certificate: {items: [...]}. */}}
{{- define "pratique.hosts" -}}
{{- $names := list .service (printf "pratique-%s" .service) }}
{{- if eq .service "frontdoor" }}
{{- $names = append $names "pratique" }}
{{- end }}
{{- $hosts := list }}
{{- range $name := $names }}
{{- range $end := list "" (printf ".%s" $.namespace) (printf ".%s.svc" $.namespace) (printf ".%s.svc.cluster.local" $.namespace) }}
{{- $hosts = append $hosts (printf "%s%s" $name $end) }}
{{- end }}
{{- end }}
{{- dict "items" (append $hosts "localhost") | toJson }}
{{- end -}}

{{/*
The chart's own authority, the same wherever it is asked for: cert and key, which sign; bundle, which is what is trusted;
ends, in seconds since 1970. In the last third of its lifetime it gets another certificate, of the same key. That one is
trusted at once, but signs only a day later, when whoever checks has it: releases of Helm write key identifiers in
different ways, and so a certificate of the new one may not be trusted by who has only the old one.
*/}}
{{- define "pratique.authority" -}}
{{- if not (hasKey .Values "madeAuthority") }}
{{- $days := 3650 }}
{{- $lifetime := mul $days 86400 }}
{{- $now := now | unixEpoch | int64 }}
{{- $cert := "" }}{{- $key := "" }}{{- $ends := add $now $lifetime }}
{{- $next := "" }}{{- $nextEnds := int64 0 }}
{{- $previous := "" }}{{- $previousEnds := int64 0 }}
{{- $stored := lookup "v1" "Secret" .Release.Namespace "pratique-authority" }}
{{- if $stored }}
{{- $cert = index $stored.data "tls.crt" | b64dec }}
{{- $key = index $stored.data "tls.key" | b64dec }}
{{- $made := $stored.metadata.creationTimestamp | toDate "2006-01-02T15:04:05Z07:00" | unixEpoch | int64 }}
{{- $told := $stored.metadata.annotations | default dict }}
{{- $ends = get $told "pratique/ends" | default (add $made $lifetime) | int64 }}
{{- $next = get $stored.data "next.crt" | b64dec }}
{{- $nextEnds = get $told "pratique/next-ends" | int64 }}
{{- $previous = get $stored.data "previous.crt" | b64dec }}
{{- $previousEnds = get $told "pratique/previous-ends" | int64 }}
{{- if and (not $next) (gt $now (sub $ends (div $lifetime 3))) }}
{{- $next = (genCAWithKey "pratique" $days $key).Cert }}
{{- $nextEnds = add $now $lifetime }}
{{- end }}
{{- if and $next (or (gt $now $ends) (gt $now (add (sub $nextEnds $lifetime) 86400))) }}
{{- $previous = $cert }}{{- $previousEnds = $ends }}
{{- $cert = $next }}{{- $ends = $nextEnds }}
{{- $next = "" }}
{{- end }}
{{- if gt $now $previousEnds }}
{{- $previous = "" }}
{{- end }}
{{- else }}
{{- $new := genCA "pratique" $days }}
{{- $cert = $new.Cert }}{{- $key = $new.Key }}
{{- end }}
{{- $authority := dict "cert" $cert "key" $key "ends" (toString $ends) "bundle" (print $cert $next $previous) }}
{{- if $next }}
{{- $_ := set $authority "next" (dict "cert" $next "ends" (toString $nextEnds)) }}
{{- end }}
{{- if $previous }}
{{- $_ := set $authority "previous" (dict "cert" $previous "ends" (toString $previousEnds)) }}
{{- end }}
{{- $_ := set .Values "madeAuthority" $authority }}
{{- end }}
{{- toJson .Values.madeAuthority }}
{{- end -}}

{{/*
The certificates that Helm signs, by name: data of the Secret; renewAfter and ends in seconds since 1970. What the cluster
has stays until two thirds of its lifetime are over, or until the authority signs with another certificate.
*/}}
{{- define "pratique.certificates" -}}
{{- if not (hasKey .Values "madeCertificates") }}
{{- $root := . }}
{{- $authority := include "pratique.authority" . | fromJson }}
{{- $signer := buildCustomCert (b64enc $authority.cert) (b64enc $authority.key) }}
{{- $days := int64 .Values.certificates.days }}
{{- $now := now | unixEpoch | int64 }}
{{- $found := dict }}
{{- $services := include "pratique.serving" . | splitList "," }}
{{- range $name := concat $services (include "pratique.callers" . | splitList "," | compact) }}
{{- $stored := lookup "v1" "Secret" $root.Release.Namespace (include "pratique.secretName" $name) | default dict }}
{{- $told := dig "metadata" "annotations" dict $stored }}
{{- $renewAfter := get $told "pratique/renew-after" | int64 }}
{{- $ends := get $told "pratique/ends" | default (add $renewAfter (mul $days 28800)) | int64 }}
{{- $data := deepCopy (get $stored "data" | default dict) }}
{{- $signedBy := get $told "pratique/signed-by" | default (get $data "ca.crt" | b64dec | sha256sum) }}
{{- if or (lt $renewAfter $now) (ne $signedBy (sha256sum $authority.cert)) }}
{{- $addresses := list }}{{- $hosts := list }}
{{- if has $name $services }}
{{- $addresses = list "127.0.0.1" "::1" }}
{{- $hosts = (include "pratique.hosts" (dict "service" $name "namespace" $root.Release.Namespace) | fromJson).items }}
{{- end }}
{{- $made := genSignedCert $name $addresses $hosts (int $days) $signer }}
{{- $data = dict "tls.crt" (b64enc $made.Cert) "tls.key" (b64enc $made.Key) }}
{{- $renewAfter = add $now (mul $days 57600) }}
{{- $ends = add $now (mul $days 86400) }}
{{- end }}
{{- $_ := set $data "ca.crt" (b64enc $authority.bundle) }}
{{- $_ := set $found $name (dict "data" $data "renewAfter" (toString $renewAfter) "ends" (toString $ends)) }}
{{- end }}
{{- $_ := set .Values "madeCertificates" $found }}
{{- end }}
{{- toJson .Values.madeCertificates }}
{{- end -}}
