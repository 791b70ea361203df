{{- define "pratique.image" -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- end -}}

{{- define "pratique.labels" -}}
app.kubernetes.io/part-of: pratique
{{- end -}}

{{/* What Pods of all services have in common: who they are, and what they may do. */}}
{{- define "pratique.pod" -}}
serviceAccountName: pratique-{{ .service }}
automountServiceAccountToken: false
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
volumes:
- name: tls
  secret: {secretName: pratique-{{ .service }}-tls, defaultMode: 0440}
{{- range $kind := list "config" "cluster" }}
{{- if index $.Values.chain $kind }}
- name: {{ $kind }}
  configMap: {name: pratique-{{ $kind }}}
{{- end }}
{{- end }}
{{- end -}}

{{- define "pratique.container" -}}
image: {{ include "pratique.image" . }}
envFrom: [{configMapRef: {name: pratique-chain}}]
resources:
  {{- toYaml .Values.resources | nindent 2 }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
volumeMounts:
- {name: tls, mountPath: /etc/pratique/tls, readOnly: true}
{{- range $kind := list "config" "cluster" }}
{{- if index $.Values.chain $kind }}
- {name: {{ $kind }}, mountPath: /etc/pratique/{{ $kind }}, readOnly: true}
{{- end }}
{{- end }}
{{- end -}}

{{/* Flags that all services must have alike, beside the variables of pratique-chain. */}}
{{- define "pratique.chain" -}}
{{- range $kind := list "config" "cluster" }}
{{- if index $.Values.chain $kind }}
- --{{ $kind }}=/etc/pratique/{{ $kind }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Pods read variables when they start: other ones need other Pods. */}}
{{- define "pratique.template-metadata" -}}
labels: {app.kubernetes.io/name: pratique-{{ .service }}, app.kubernetes.io/part-of: pratique}
annotations:
  checksum/chain: {{ include "pratique.variables" . | sha256sum | quote }}
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
