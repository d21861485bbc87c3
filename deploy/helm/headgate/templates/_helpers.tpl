{{- define "headgate.name" -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "headgate.selector" -}}
app.kubernetes.io/name: headgate
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "headgate.labels" -}}
{{ include "headgate.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "headgate.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{ .Values.serviceAccount.name | default (include "headgate.name" .) }}
{{- else -}}
{{ required "serviceAccount.name: expected the name of the ServiceAccount that you made, because serviceAccount.create is false" .Values.serviceAccount.name }}
{{- end -}}
{{- end -}}

{{- define "headgate.image" -}}
{{- $repository := required "image.repository: expected where the image of headgate is, e.g. 123456789012.dkr.ecr.eu-central-1.amazonaws.com/headgate; deploy/image/Dockerfile builds it" .Values.image.repository -}}
{{ printf "%s:%s" $repository (.Values.image.tag | default .Chart.AppVersion) }}
{{- end -}}

{{- /* A Headgate of its own Lease for each release, so that two in one namespace are told apart. */ -}}
{{- define "headgate.lease" -}}
{{ include "headgate.name" . }}
{{- end -}}

{{- /* What a pod of ours may do to its node: nothing ("restricted" of the pod security standards). */ -}}
{{- define "headgate.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "headgate.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{- /* Which cluster, which AWS: the same for the controller and for its uninstall. */ -}}
{{- define "headgate.env" -}}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: HEADGATE_OWN_NAMESPACE
  valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
- name: HEADGATE_LEASE_NAME
  value: {{ include "headgate.lease" . }}
{{- with .Values.namespaces }}
- name: HEADGATE_NAMESPACES
  value: {{ join "," . | quote }}
{{- end }}
{{- with .Values.namespaceSelector }}
- name: HEADGATE_NAMESPACE_SELECTOR
  value: {{ . | quote }}
{{- end }}
{{- with .Values.aws.region }}
- name: AWS_REGION
  value: {{ . | quote }}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}
