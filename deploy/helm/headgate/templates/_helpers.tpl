{{- /* As in the charts that `helm create` makes, but at most 52 characters, because suffixes are added. */ -}}
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

{{- /* Labels of an object: its own, then those of commonLabels that are not among them. */ -}}
{{- define "headgate.labels" -}}
{{- $own := include "headgate.selector" . | fromYaml -}}
{{- include "headgate.labelsOf" (dict "root" . "own" $own) -}}
{{- end -}}

{{- define "headgate.labelsOf" -}}
{{- $root := .root -}}
{{- $chart := dict "app.kubernetes.io/version" $root.Chart.AppVersion "app.kubernetes.io/managed-by" $root.Release.Service "app.kubernetes.io/part-of" $root.Chart.Name "helm.sh/chart" (printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_") -}}
{{- merge (deepCopy .own) $chart (.more | default dict) $root.Values.commonLabels | toYaml -}}
{{- end -}}

{{- /* Labels of a pod: what selects it, then podLabels, then commonLabels. */ -}}
{{- define "headgate.podLabels" -}}
{{- merge (deepCopy .own) (.more | default dict) .root.Values.commonLabels | toYaml -}}
{{- end -}}

{{- define "headgate.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{ .Values.serviceAccount.name | default (include "headgate.name" .) }}
{{- else -}}
{{ required "Set serviceAccount.name to the ServiceAccount that you created, because serviceAccount.create is false" .Values.serviceAccount.name }}
{{- end -}}
{{- end -}}

{{- define "headgate.image" -}}
{{- if .Values.image.digest -}}
{{ printf "%s@%s" .Values.image.repository .Values.image.digest }}
{{- else -}}
{{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) }}
{{- end -}}
{{- end -}}

{{- /* A duration of one number and one unit, in milliseconds. */ -}}
{{- define "headgate.milliseconds" -}}
{{- $number := regexFind "^[0-9]+" . | int64 -}}
{{- if hasSuffix "ms" . }}{{ $number }}{{ else if hasSuffix "m" . }}{{ mul $number 60000 }}{{ else }}{{ mul $number 1000 }}{{ end -}}
{{- end -}}

{{- /* Rejects what `headgate run` would reject at its start, before anything is changed. */ -}}
{{- define "headgate.check" -}}
{{- $lease := .Values.lease -}}
{{- $duration := include "headgate.milliseconds" $lease.duration | int64 -}}
{{- $deadline := include "headgate.milliseconds" $lease.renewDeadline | int64 -}}
{{- $retry := include "headgate.milliseconds" $lease.retryPeriod | int64 -}}
{{- if or (eq $duration 0) (ne (mod $duration 1000) 0) -}}
{{- fail (printf "Set lease.duration to whole seconds, at least 1s; it is %s" $lease.duration) -}}
{{- end -}}
{{- if ge $deadline $duration -}}
{{- fail (printf "Set lease.renewDeadline to less than lease.duration, %s; it is %s" $lease.duration $lease.renewDeadline) -}}
{{- end -}}
{{- if or (gt (mul 2 $retry) $deadline) (lt $retry 10) -}}
{{- fail (printf "Set lease.retryPeriod to at least 10ms and at most half of lease.renewDeadline, %s; it is %s" $lease.renewDeadline $lease.retryPeriod) -}}
{{- end -}}
{{- if and .Values.webhook.enabled (ge $duration 25000) -}}
{{- fail (printf "Set lease.duration to less than 25s with the webhook; it is %s. Otherwise the hold of a pod that stops right after a leader was killed is too short" $lease.duration) -}}
{{- end -}}
{{- if eq (int .Values.adminPort) (int .Values.webhook.port) -}}
{{- fail "Set adminPort and webhook.port to different ports" -}}
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
{{- with .Values.dnsConfig }}
dnsConfig: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- /* Each release has a Lease of its own, which distinguishes releases in one namespace. */ -}}
{{- define "headgate.lease" -}}
{{ include "headgate.name" . }}
{{- end -}}

{{- /* The controller of IngressDaemonSets: no selector of another component selects its pods. */ -}}
{{- define "headgate.daemonsets" -}}
{{ include "headgate.name" . }}-daemonsets
{{- end -}}

{{- define "headgate.daemonsetsSelector" -}}
app.kubernetes.io/name: {{ include "headgate.called" . }}-daemonsets
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "headgate.daemonsetsLabels" -}}
{{- $own := include "headgate.daemonsetsSelector" . | fromYaml -}}
{{- include "headgate.labelsOf" (dict "root" . "own" $own) -}}
{{- end -}}

{{- define "headgate.daemonsetsServiceAccount" -}}
{{- $account := .Values.daemonsets.serviceAccount -}}
{{- if $account.create -}}
{{ $account.name | default (include "headgate.daemonsets" .) }}
{{- else -}}
{{ required "Set daemonsets.serviceAccount.name to the ServiceAccount that you created, because daemonsets.serviceAccount.create is false" $account.name }}
{{- end -}}
{{- end -}}

{{- /* `headgate certificates`: no selector of another component selects its pod. A label has at most 63 characters. */ -}}
{{- define "headgate.certificates" -}}
{{ include "headgate.name" . | trunc 50 | trimSuffix "-" }}-certificates
{{- end -}}

{{- define "headgate.certificatesSelector" -}}
app.kubernetes.io/name: {{ include "headgate.called" . | trunc 50 | trimSuffix "-" }}-certificates
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- /* Rollouts of a Deployment with several replicas. */ -}}
{{- define "headgate.rollout" -}}
{{- with .Values.strategy }}
strategy: {{- toYaml . | nindent 2 }}
{{- end }}
revisionHistoryLimit: {{ .Values.revisionHistoryLimit }}
{{- end -}}

{{- /* Where pods run. The values of a component replace those of the chart, one by one. */ -}}
{{- define "headgate.scheduling" -}}
{{- $own := .own | default dict -}}
{{- with $own.priorityClassName | default .root.Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $own.nodeSelector | default .root.Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $own.tolerations | default .root.Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $own.affinity | default .root.Values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- /* How many pods a drain may evict at a time. */ -}}
{{- define "headgate.budget" -}}
{{- $budget := .Values.podDisruptionBudget -}}
{{- if ne (toString $budget.minAvailable) "" }}
minAvailable: {{ $budget.minAvailable }}
{{- else }}
maxUnavailable: {{ $budget.maxUnavailable }}
{{- end }}
# A replica that is not ready never blocks a drain.
unhealthyPodEvictionPolicy: AlwaysAllow
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

{{- /* How Prometheus asks an endpoint, for a PodMonitor or a ServiceMonitor. */ -}}
{{- define "headgate.endpoint" -}}
path: /metrics
interval: {{ .interval }}
{{- with .scrapeTimeout }}
scrapeTimeout: {{ . }}
{{- end }}
# The label `namespace` of a metric is that of its Service or IngressDaemonSet.
honorLabels: true
{{- with .relabelings }}
relabelings: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .metricRelabelings }}
metricRelabelings: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
