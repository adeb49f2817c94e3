{{- /* The mode, written as in objects (Active) or in lower case. */ -}}
{{- define "plimsoll.mode" -}}
{{- lower .Values.mode }}
{{- end }}

{{- define "plimsoll.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- /* Names of 52 letters leave room for the endings that we put after them. */ -}}
{{- define "plimsoll.fullname" -}}
{{- $name := include "plimsoll.name" . }}
{{- $full := .Values.fullnameOverride | default (ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name)) }}
{{- $full | trunc 52 | trimSuffix "-" }}
{{- end }}

{{- /* Cluster-scoped things of two releases of the same name must not be one thing. */ -}}
{{- define "plimsoll.clustername" -}}
{{- $full := include "plimsoll.fullname" . }}
{{- ternary $full (printf "%s:%s" .Release.Namespace $full) (eq .Release.Namespace $full) }}
{{- end }}

{{- /* The pods that work, and not the one that tests the release. */ -}}
{{- define "plimsoll.selector" -}}
app.kubernetes.io/name: {{ include "plimsoll.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: autoscaler
{{- end }}

{{- /* The labels of a component. Ours come before everybody else's: selectors rest on them. */ -}}
{{- define "plimsoll.labels" -}}
{{- $ours := dict
  "app.kubernetes.io/name" (include "plimsoll.name" .root)
  "app.kubernetes.io/instance" .root.Release.Name
  "app.kubernetes.io/component" (.component | default "autoscaler")
  "app.kubernetes.io/version" .root.Chart.AppVersion
  "app.kubernetes.io/managed-by" .root.Release.Service
  "helm.sh/chart" (printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_") }}
{{- toYaml (merge $ours (.labels | default dict) .root.Values.commonLabels) }}
{{- end }}

{{- /*
The metadata of an object: root, and where they are not the usual ones name, namespace ("" for none), component, labels
and annotations.
*/ -}}
{{- define "plimsoll.metadata" -}}
name: {{ .name | default (include "plimsoll.fullname" .root) }}
{{- with dig "namespace" .root.Release.Namespace (omit . "root") }}
namespace: {{ . }}
{{- end }}
labels:
  {{- include "plimsoll.labels" . | nindent 2 }}
{{- with merge (dict) (.annotations | default dict) .root.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "plimsoll.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (ternary (include "plimsoll.fullname" .) "default" .Values.serviceAccount.create) }}
{{- end }}

{{- /* Whether a request is from the account, as CEL. */ -}}
{{- define "plimsoll.isAccount" -}}
request.userInfo.username == 'system:serviceaccount:{{ .Release.Namespace }}:{{ include "plimsoll.serviceAccount" . }}'
{{- end }}

{{- /* Whether pods are marked to say which go first. */ -}}
{{- define "plimsoll.marksPods" -}}
{{- if and (has "podscaler" .Values.components) (has "nodescaler" .Values.components) .Values.rbac.deletionCosts.enabled }}true{{ end }}
{{- end }}

{{- define "plimsoll.secret" -}}
{{- if .Values.proxmox.createSecret }}{{ include "plimsoll.fullname" . }}-proxmox{{ else }}{{ .Values.proxmox.existingSecret }}{{ end }}
{{- end }}

{{- define "plimsoll.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default (printf "v%s" $.Chart.AppVersion) }}{{ end }}
{{- end }}
{{- end }}

{{- /* The lease that a release leads by: each has its own. */ -}}
{{- define "plimsoll.lease" -}}
{{- .Values.config.lease | default (include "plimsoll.fullname" .) }}
{{- end }}

{{- define "plimsoll.makesMachines" -}}
{{- if or (has "nodescaler" .Values.components) (has "provider" .Values.components) }}true{{ end }}
{{- end }}

{{- /* By what replicas that are expected are made known to whoever orders machines; empty by nothing. */ -}}
{{- define "plimsoll.handOff" -}}
{{- $auto := and (has "podscaler" .Values.components) (has "provider" .Values.components) (not (has "nodescaler" .Values.components)) }}
{{- $by := dig "handoff" "by" (ternary "CapacityBuffer" "" (not (not $auto))) .Values.config }}
{{- if ne $by "none" }}{{ $by }}{{ end }}
{{- end }}

{{- /* The class of placeholders. */ -}}
{{- define "plimsoll.placeholderClass" -}}
{{- dig "handoff" "priorityClass" (printf "%s-placeholder" (include "plimsoll.clustername" . | replace ":" "-")) .Values.config }}
{{- end }}

{{- /* What placeholders run. */ -}}
{{- define "plimsoll.placeholderImage" -}}
{{- dig "handoff" "image" "registry.k8s.io/pause:3.10.1" .Values.config }}
{{- end }}

{{- /* The configuration file: the values, and what follows from how the pod is made. */ -}}
{{- define "plimsoll.config" -}}
{{- $ours := dict "mode" (title .Values.mode) "metrics" (printf ":%d" (int .Values.metrics.port)) }}
{{- if ne (include "plimsoll.lease" .) "plimsoll" }}
{{- $_ := set $ours "lease" (include "plimsoll.lease" .) }}
{{- end }}
{{- if include "plimsoll.makesMachines" . }}
{{- $_ := set $ours "state" "kubernetes" }}
{{- else }}
{{- $_ := set $ours "tokenFile" "" }}
{{- end }}
{{- if has "provider" .Values.components }}
{{- $provider := dict "listen" (printf ":%d" (int .Values.provider.port)) }}
{{- if .Values.provider.tlsSecret }}
{{- $_ := set $provider "tls" (dict "certificate" "provider-tls.crt" "key" "provider-tls.key" "clientCA" "provider-ca.crt" "clients" .Values.provider.clients) }}
{{- end }}
{{- with .Values.provider.expanderPort }}
{{- $_ := set $provider "expander" (printf ":%d" (int .)) }}
{{- end }}
{{- $_ := set $ours "provider" $provider }}
{{- end }}
{{- if .Values.admission.enabled }}
{{- $_ := set $ours "admission" (dict "listen" (printf ":%d" (int .Values.admission.port)) "certificate" "admission-tls.crt" "key" "admission-tls.key") }}
{{- end }}
{{- if eq (include "plimsoll.handOff" .) "Placeholders" }}
{{- $_ := set $ours "handoff" (dict "priorityClass" (include "plimsoll.placeholderClass" .) "image" (include "plimsoll.placeholderImage" .)) }}
{{- end }}
{{- range $part := list "prometheus" "scrape" }}
{{- $v := index $.Values $part }}
{{- $access := dict }}
{{- range $as := list "ca" "token" "basicAuth" }}
{{- if index $v (printf "%sKey" $as) }}
{{- $_ := set $access (printf "%sFile" $as) (printf "%s-%s" $part (kebabcase $as)) }}
{{- end }}
{{- end }}
{{- range $key := list "url" "headers" "serverName" }}
{{- with index $v $key }}{{ $_ := set $access $key . }}{{ end }}
{{- end }}
{{- with $access }}{{ $_ := set $ours $part . }}{{ end }}
{{- end }}
{{- $all := merge $ours (deepCopy .Values.config) }}
{{- if hasKey (dig "limit" dict $all) "amount" }}
{{- /* The program reads money as it is written, and takes no exponent, which YAML would make of 1234567.5. JSON makes none. */ -}}
{{- $_ := set $all.limit "amount" ($all.limit.amount | toJson | trimAll "\"") }}
{{- end }}
{{- range $quota := dig "quotas" list $all }}
{{- if hasKey $quota "maxHourlyCost" }}
{{- $_ := set $quota "maxHourlyCost" ($quota.maxHourlyCost | toJson | trimAll "\"") }}
{{- end }}
{{- end }}
{{- toYaml (ternary $all (omit $all "tokenFile") (ne $all.tokenFile "")) }}
{{- end }}

{{- /* Where pods run, and the names that they know: the Deployment's, and the one that tests the release. */ -}}
{{- define "plimsoll.placement" -}}
{{- range $key := list "hostAliases" "dnsConfig" "nodeSelector" "tolerations" }}
{{- with index $.Values $key }}
{{ $key }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
affinity:
  {{- if .Values.affinity }}
  {{- toYaml .Values.affinity | nindent 2 }}
  {{- else }}
  nodeAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      nodeSelectorTerms:
        - matchExpressions: # not on a machine that it may delete under its own feet
            - {key: plimsoll.dev/pool, operator: DoesNotExist}
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        preference:
          matchExpressions:
            - {key: node-role.kubernetes.io/control-plane, operator: Exists}
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels:
              {{- include "plimsoll.selector" . | nindent 14 }}
  {{- end }}
{{- end }}

{{- define "plimsoll.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "plimsoll.securityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- /* The configuration file and, beside it, the files that it names. Only the group may read them: a token is among them. */ -}}
{{- define "plimsoll.configVolume" -}}
name: config
projected:
  defaultMode: 0440
  sources:
    - configMap:
        name: {{ include "plimsoll.fullname" . }}
        items: [{key: config.yaml, path: config.yaml}]
    {{- range prepend .Values.joinSecrets (include "plimsoll.secret" .) | compact | uniq }}
    - secret:
        name: {{ . }}
    {{- end }}
    {{- if and (has "provider" .Values.components) .Values.provider.tlsSecret }}
    - secret:
        name: {{ .Values.provider.tlsSecret }}
        items:
          - {key: tls.crt, path: provider-tls.crt}
          - {key: tls.key, path: provider-tls.key}
          - {key: ca.crt, path: provider-ca.crt}
    {{- end }}
    {{- if .Values.admission.enabled }}
    - secret:
        name: {{ .Values.admission.tlsSecret }}
        items:
          - {key: tls.crt, path: admission-tls.crt}
          - {key: tls.key, path: admission-tls.key}
    {{- end }}
    {{- range $part := list "prometheus" "scrape" }}
    {{- $v := index $.Values $part }}
    {{- with $v.existingSecret }}
    - secret:
        name: {{ . }}
        items:
          {{- range $as := list "ca" "token" "basicAuth" }}
          {{- with index $v (printf "%sKey" $as) }}
          - {key: {{ . | quote }}, path: {{ printf "%s-%s" $part (kebabcase $as) }}}
          {{- end }}
          {{- end }}
    {{- end }}
    {{- end }}
{{- end }}

{{- /* A size in bytes, or 0 if it is not a size, which the program refuses. */ -}}
{{- define "plimsoll.bytes" -}}
{{- $unit := regexFind "[A-Za-z]*$" . | trimSuffix "B" }}
{{- $size := dict "" 1 "k" 1e3 "K" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 }}
{{- mulf (regexFind "^[0-9.]+" .) (get $size $unit | default 0) | toJson }}
{{- end }}

{{- /* What the schema cannot say. */ -}}
{{- define "plimsoll.check" -}}
{{- $c := .Values.config }}
{{- $p := .Values.proxmox }}
{{- if and $p.createSecret $p.existingSecret }}
{{- fail (printf "proxmox.existingSecret: must be omitted with createSecret, was %q" $p.existingSecret) }}
{{- end }}
{{- if and $p.secret (not $p.createSecret) }}
{{- fail "proxmox.secret: must be omitted unless createSecret is true: it would stay readable in the release's history" }}
{{- end }}
{{- if and $p.createSecret (not (index $p.secret $c.tokenFile)) }}
{{- fail (printf "proxmox.secret: must hold the API token under the key %q, which config.tokenFile names" $c.tokenFile) }}
{{- end }}
{{- if include "plimsoll.makesMachines" . }}
{{- if not (include "plimsoll.secret" .) }}
{{- fail "proxmox.existingSecret: must name a secret with the API token, for nodescaler and provider make machines; set components to [podscaler] to do without" }}
{{- end }}
{{- range list "owner" "endpoints" }}
{{- if not (index $c .) }}
{{- fail (printf "config.%s: must be set, for nodescaler and provider make machines; set components to [podscaler] to do without" .) }}
{{- end }}
{{- end }}
{{- end }}
{{- range $part := list "prometheus" "scrape" }}
{{- $v := index $.Values $part }}
{{- $keys := compact (list $v.caKey $v.tokenKey $v.basicAuthKey) }}
{{- if and $keys (not $v.existingSecret) }}
{{- fail (printf "%s.existingSecret: must name the secret that has %s" $part (join " and " $keys)) }}
{{- end }}
{{- if and $v.existingSecret (not $keys) }}
{{- fail (printf "%s.existingSecret: must be omitted without caKey, tokenKey or basicAuthKey, which say what is in it, was %q" $part $v.existingSecret) }}
{{- end }}
{{- if and $v.tokenKey $v.basicAuthKey }}
{{- fail (printf "%s.basicAuthKey: must be omitted beside tokenKey, was %q" $part $v.basicAuthKey) }}
{{- end }}
{{- end }}
{{- if and (not .Values.prometheus.url) (or .Values.prometheus.existingSecret .Values.prometheus.headers) }}
{{- fail "prometheus.url: must be set, for headers and a secret are given for it" }}
{{- end }}
{{- $a := .Values.admission }}
{{- if and $a.enabled (not (has "podscaler" .Values.components)) }}
{{- fail "admission.enabled: must be false without podscaler, which decides what pods request, was true" }}
{{- end }}
{{- if and $a.enabled (not $a.tlsSecret) }}
{{- fail "admission.tlsSecret: must name a secret with tls.crt and tls.key, for the API server asks by TLS alone" }}
{{- end }}
{{- if and $a.enabled (not (or $a.caBundle $a.annotations)) }}
{{- fail "admission.caBundle: must be the authority that signed the certificate, in base64, unless annotations have it injected" }}
{{- end }}
{{- if regexMatch "^(localhost|127[.]|\\[::1\\])" ($c.kedaScaler | default "") }}
{{- fail (printf "config.kedaScaler: must have no loopback address, which KEDA does not reach: 0.0.0.0:8088, was %q" $c.kedaScaler) }}
{{- end }}
{{- $ports := list (list "metrics.port" .Values.metrics.port) }}
{{- if has "provider" .Values.components }}
{{- $ports = concat $ports (list (list "provider.port" .Values.provider.port) (list "provider.expanderPort" .Values.provider.expanderPort)) }}
{{- end }}
{{- if $a.enabled }}
{{- $ports = append $ports (list "admission.port" $a.port) }}
{{- end }}
{{- range list "kedaScaler" "dashboard" }}
{{- $ports = append $ports (list (printf "config.%s" .) (index $c . | default "")) }}
{{- end }}
{{- $taken := dict }}
{{- range $one := $ports }}
{{- $port := regexFind "[0-9]+$" (last $one | toString) }}
{{- if and $port (ne $port "0") (hasKey $taken $port) }}
{{- fail (printf "%s: must not take the port of %s, was %v" (first $one) (get $taken $port) (last $one)) }}
{{- end }}
{{- $_ := set $taken $port (first $one) }}
{{- end }}
{{- if and (has "provider" .Values.components) (gt (int .Values.replicas) 1) }}
{{- fail "replicas: must be 1 with provider: one that does not lead cannot answer cluster-autoscaler, was 2" }}
{{- end }}
{{- if and $c.kedaScaler (gt (int .Values.replicas) 1) }}
{{- fail "replicas: must be 1 with config.kedaScaler: one that does not lead cannot answer KEDA, was 2" }}
{{- end }}
{{- if and (has "provider" .Values.components) .Values.provider.tlsSecret (not .Values.provider.clients) }}
{{- fail "provider.clients: must name whose certificates may order and destroy machines, such as [cluster-autoscaler], was empty" }}
{{- end }}
{{- $tls := or .Values.provider.tlsSecret (dig "provider" "tls" "" $c) (dig "provider" "plaintext" "" $c) }}
{{- if and (has "provider" .Values.components) (not $tls) }}
{{- fail "provider.tlsSecret: must name a secret with tls.crt, tls.key and ca.crt, for whoever calls the provider can order machines" }}
{{- end }}
{{- if and .Values.provider.tlsSecret (or (dig "provider" "tls" "" $c) (dig "provider" "plaintext" "" $c)) }}
{{- fail (printf "provider.tlsSecret: must be omitted beside config.provider.tls and config.provider.plaintext, was %q" .Values.provider.tlsSecret) }}
{{- end }}
{{- $said := dict "mode" "mode says" "metrics" "metrics.port says" "admission" "admission says" "state" "the chart says" "namespace" "the release says" "kubeconfig" "the service account says" "pools" "VMPools say" "prices" "a PriceBook says" "prometheus" "prometheus says" "scrape" "scrape says" }}
{{- range $key, $by := $said }}
{{- if hasKey $c $key }}
{{- fail (printf "config.%s: must be omitted, for %s it" $key $by) }}
{{- end }}
{{- end }}
{{- if dig "provider" "listen" "" $c }}
{{- fail "config.provider.listen: must be omitted, for provider.port says it" }}
{{- end }}
{{- if dig "provider" "expander" "" $c }}
{{- fail "config.provider.expander: must be omitted, for provider.expanderPort says it" }}
{{- end }}
{{- $journal := dig "journal" "file" "-" $c }}
{{- if and (ne $journal "-") (not (regexMatch "^/var/lib/plimsoll/[^/]+$" $journal)) }}
{{- fail (printf "config.journal.file: must be - for standard output or a file in /var/lib/plimsoll/ here, for nothing else in the pod can be written to, was %q" $journal) }}
{{- end }}
{{- $needs := 0.0 }}
{{- if ne $journal "-" }}
{{- $needs = mulf (include "plimsoll.bytes" (dig "journal" "rotateSize" "64MiB" $c | toString)) (add1 (dig "journal" "keep" 3 $c)) }}
{{- end }}
{{- if $c.recording }}
{{- $folder := dig "recording" "folder" "" $c }}
{{- if not (regexMatch "^/var/lib/plimsoll/[^/]+$" $folder) }}
{{- fail (printf "config.recording.folder: must be a folder in /var/lib/plimsoll/ here, for nothing else in the pod can be written to, was %q" $folder) }}
{{- end }}
{{- $needs = addf $needs (include "plimsoll.bytes" (dig "recording" "limit" "5GiB" $c | toString)) }}
{{- end }}
{{- if and $needs (ge $needs (include "plimsoll.bytes" .Values.journal.sizeLimit | float64)) }}
{{- fail (printf "journal.sizeLimit: must be above %.0fMi, what config.journal and config.recording.limit take, or the pod is evicted, was %s" (divf $needs 1048576 | ceil) .Values.journal.sizeLimit) }}
{{- end }}
{{- $seen := list }}
{{- range .Values.extraEnv }}
{{- if has .name $seen }}
{{- fail (printf "extraEnv: must name every variable once, was %s twice" .name) }}
{{- end }}
{{- $seen = append $seen .name }}
{{- end }}
{{- range list "PrometheusRule" "ServiceMonitor" }}
{{- $key := untitle . }}
{{- if and (index $.Values $key).enabled (not ($.Capabilities.APIVersions.Has (printf "monitoring.coreos.com/v1/%s" .))) }}
{{- fail (printf "%s.enabled: must be false where the cluster has no %s of monitoring.coreos.com/v1, was true" $key .) }}
{{- end }}
{{- end }}
{{- end }}
