{{- define "statewright.name" -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "statewright.selector" -}}
app.kubernetes.io/name: statewright
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "statewright.labels" -}}
{{ include "statewright.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "statewright.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{- define "statewright.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "statewright.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/* A file of a secret in the projected volume: (list secret key path) */}}
{{- define "statewright.secretFile" -}}
- secret:
    name: {{ index . 0 }}
    items: [{key: {{ index . 1 | quote }}, path: {{ index . 2 }}}]
{{- end -}}
