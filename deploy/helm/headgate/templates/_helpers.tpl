{{- /* As in the charts that `helm create` makes; shorter, because more is added to it. */ -}}
{{- define "headgate.name" -}}
{{- $called := .Values.nameOverride | default .Chart.Name -}}
{{- $name := ternary .Release.Name (printf "%s-%s" .Release.Name $called) (contains $called .Release.Name) -}}
{{- .Values.fullnameOverride | default $name | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "headgate.called" -}}
{{- .Values.nameOverride | default "headgate" | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "headgate.selector" -}}
app.kubernetes.io/name: {{ include "headgate.called" . }}
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
{{- if .Values.image.digest -}}
{{ printf "%s@%s" $repository .Values.image.digest }}
{{- else -}}
{{ printf "%s:%s" $repository (.Values.image.tag | default .Chart.AppVersion) }}
{{- end -}}
{{- end -}}

{{- /* A duration of one number and one unit, in milliseconds. */ -}}
{{- define "headgate.milliseconds" -}}
{{- $number := regexFind "^[0-9]+" . | int64 -}}
{{- if hasSuffix "ms" . }}{{ $number }}{{ else if hasSuffix "m" . }}{{ mul $number 60000 }}{{ else }}{{ mul $number 1000 }}{{ end -}}
{{- end -}}

{{- /* What `headgate run` would refuse at its start is refused here, before anything is changed. */ -}}
{{- define "headgate.check" -}}
{{- $lease := .Values.lease -}}
{{- $duration := include "headgate.milliseconds" $lease.duration | int64 -}}
{{- $deadline := include "headgate.milliseconds" $lease.renewDeadline | int64 -}}
{{- $retry := include "headgate.milliseconds" $lease.retryPeriod | int64 -}}
{{- if or (eq $duration 0) (ne (mod $duration 1000) 0) -}}
{{- fail (printf "lease.duration is %s: expected whole seconds, at least 1s" $lease.duration) -}}
{{- end -}}
{{- if ge $deadline $duration -}}
{{- fail (printf "lease.renewDeadline is %s: expected less than lease.duration, %s" $lease.renewDeadline $lease.duration) -}}
{{- end -}}
{{- if or (gt (mul 2 $retry) $deadline) (lt $retry 10) -}}
{{- fail (printf "lease.retryPeriod is %s: expected 10ms at least, and at most half of lease.renewDeadline, %s" $lease.retryPeriod $lease.renewDeadline) -}}
{{- end -}}
{{- if and .Values.webhook.enabled (ge $duration 25000) -}}
{{- fail (printf "lease.duration is %s: expected less than 25s with the webhook, because a pod that ends while a killed leader is still missed would not be held long enough" $lease.duration) -}}
{{- end -}}
{{- if eq (int .Values.adminPort) (int .Values.webhook.port) -}}
{{- fail "adminPort and webhook.port are the same: expected two ports" -}}
{{- end -}}
{{- end -}}

{{- /* Where a pod of the host network finds the cluster's DNS. */ -}}
{{- define "headgate.network" -}}
{{- if .Values.hostNetwork }}
hostNetwork: true
{{- end }}
{{- with .Values.dnsPolicy | default (ternary "ClusterFirstWithHostNet" "" .Values.hostNetwork) }}
dnsPolicy: {{ . }}
{{- end }}
{{- end -}}

{{- /* A Headgate of its own Lease for each release, so that two in one namespace are told apart. */ -}}
{{- define "headgate.lease" -}}
{{ include "headgate.name" . }}
{{- end -}}

{{- /* The controller of IngressDaemonSets: none of the Services and budgets of the rest selects its pods. */ -}}
{{- define "headgate.daemonsets" -}}
{{ include "headgate.name" . }}-daemonsets
{{- end -}}

{{- define "headgate.daemonsetsSelector" -}}
app.kubernetes.io/name: {{ include "headgate.called" . }}-daemonsets
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "headgate.daemonsetsLabels" -}}
{{ include "headgate.daemonsetsSelector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- /* `headgate certificates`, which none of the rest selects either. A label has room for 63 characters. */ -}}
{{- define "headgate.certificates" -}}
{{ include "headgate.name" . | trunc 50 | trimSuffix "-" }}-certificates
{{- end -}}

{{- define "headgate.certificatesSelector" -}}
app.kubernetes.io/name: {{ include "headgate.called" . | trunc 50 | trimSuffix "-" }}-certificates
app.kubernetes.io/instance: {{ .Release.Name }}
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
