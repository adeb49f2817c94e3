package kubelet

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/plimsoll/plimsoll/testbed/lab"
)

// process is what the container is to be run as. If it cannot be, there is the reason that a
// kubelet has for it.
func (c *container) process() (p *lab.Process, reason string, err error) {
	program, there := c.pod.k.part.Programs[nameOf(c.spec.Image)]
	if !there {
		return nil, "ErrImagePull", fmt.Errorf("%s: the lab has no program %q", c.spec.Image, nameOf(c.spec.Image))
	}
	if err := refused(c.object, c.spec); err != nil {
		return nil, "CreateContainerConfigError", err
	}
	args := c.spec.Args
	if len(c.spec.Command) > 0 {
		args = slices.Concat(c.spec.Command[1:], args)
		if program, there = c.pod.k.part.Programs[nameOf(c.spec.Command[0])]; !there {
			return nil, "CreateContainerError", fmt.Errorf("exec: %q: the lab has no such program", c.spec.Command[0])
		}
	}
	env, err := c.env()
	if err != nil {
		return nil, "CreateContainerConfigError", err
	}
	folder, err := c.pod.place("work")
	if err != nil {
		return nil, "CreateContainerError", err
	}
	paths := c.paths()
	p = &lab.Process{Path: program.Path, Args: slices.Clone(program.Args), Bare: true, Dir: folder}
	p.Env = append(p.Env, "PATH=/usr/local/bin:/usr/bin:/bin", "HOME="+folder, "TMPDIR="+folder, "HOSTNAME="+c.pod.name)
	if c.pod.account != "" && paths.has(accountPath) {
		p.Env = append(p.Env, "KUBECONFIG="+c.pod.kubeconfig())
	}
	p.Env = append(p.Env, program.Env...)
	for _, e := range env {
		p.Env = append(p.Env, e.Name+"="+paths.in(e.Value))
	}
	for _, a := range args {
		p.Args = append(p.Args, paths.in(expand(a, env)))
	}
	return p, "", nil
}

// refused says what is asked for that is not done here.
func refused(o *corev1.Pod, c *corev1.Container) error {
	switch {
	case len(o.Spec.InitContainers) > 0:
		return unsupported("initContainers")
	case o.Spec.ActiveDeadlineSeconds != nil:
		return unsupported("activeDeadlineSeconds of a pod")
	case len(c.EnvFrom) > 0:
		return unsupported("envFrom")
	case c.Lifecycle != nil:
		return unsupported("lifecycle")
	case c.StartupProbe != nil:
		return unsupported("startupProbe")
	}
	for name, p := range map[string]*corev1.Probe{"readinessProbe": c.ReadinessProbe, "livenessProbe": c.LivenessProbe} {
		if p != nil && p.HTTPGet == nil {
			return unsupported(name + " other than httpGet")
		}
	}
	return nil
}

// env is the container's environment, with what it refers to.
func (c *container) env() ([]corev1.EnvVar, error) {
	var all []corev1.EnvVar
	for _, e := range c.spec.Env {
		value, given, err := expand(e.Value, all), true, error(nil)
		if e.ValueFrom != nil {
			value, given, err = c.pod.referred(c.object, e.ValueFrom)
		}
		if err != nil {
			return nil, fmt.Errorf("env %s: %w", e.Name, err)
		}
		if given {
			all = append(all, corev1.EnvVar{Name: e.Name, Value: value})
		}
	}
	return all, nil
}

// memoryLimit is that of the container named, in bytes.
func memoryLimit(o *corev1.Pod, from *corev1.ResourceFieldSelector) (string, error) {
	if from.Resource != "limits.memory" || from.Divisor.Value() > 1 {
		return "", unsupported("a resourceFieldRef other than limits.memory in bytes")
	}
	for i := range o.Spec.Containers {
		c := &o.Spec.Containers[i]
		if limit, is := c.Resources.Limits[corev1.ResourceMemory]; is && c.Name == from.ContainerName {
			return strconv.FormatInt(limit.Value(), 10), nil
		}
	}
	return "", unsupported("a resourceFieldRef of a container without a memory limit")
}

// referred is the value that a source leads to, and whether there is one.
func (p *pod) referred(o *corev1.Pod, from *corev1.EnvVarSource) (string, bool, error) {
	var files map[string][]byte
	var key string
	var optional *bool
	var err error
	switch {
	case from.FieldRef != nil:
		value, err := p.field(o, from.FieldRef.FieldPath)
		return value, true, err
	case from.ConfigMapKeyRef != nil:
		key, optional = from.ConfigMapKeyRef.Key, from.ConfigMapKeyRef.Optional
		files, err = p.configMap(from.ConfigMapKeyRef.Name)
	case from.SecretKeyRef != nil:
		key, optional = from.SecretKeyRef.Key, from.SecretKeyRef.Optional
		files, err = p.secret(from.SecretKeyRef.Name)
	case from.ResourceFieldRef != nil:
		value, err := memoryLimit(o, from.ResourceFieldRef)
		return value, err == nil, err
	default:
		return "", false, unsupported("valueFrom other than fieldRef, resourceFieldRef, configMapKeyRef and secretKeyRef")
	}
	value, there := files[key]
	missing := errors.Is(err, fs.ErrNotExist) || err == nil && !there
	switch {
	case missing && optional != nil && *optional:
		return "", false, nil
	case err == nil && !there:
		err = fmt.Errorf("key %s: %w", key, fs.ErrNotExist)
	}
	return string(value), true, err
}

// field is what the downward API provides.
func (p *pod) field(o *corev1.Pod, path string) (string, error) {
	switch path {
	case "metadata.name":
		return o.Name, nil
	case "metadata.namespace":
		return o.Namespace, nil
	case "metadata.uid":
		return string(o.UID), nil
	case "spec.nodeName":
		return o.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return o.Spec.ServiceAccountName, nil
	case "status.podIP", "status.podIPs":
		return p.ip, nil
	case "status.hostIP", "status.hostIPs":
		return "127.0.0.1", nil
	}
	for prefix, of := range map[string]map[string]string{"metadata.labels['": o.Labels, "metadata.annotations['": o.Annotations} {
		if key, is := strings.CutPrefix(path, prefix); is {
			return of[strings.TrimSuffix(key, "']")], nil
		}
	}
	return "", unsupported("fieldRef " + path)
}

// expand puts values in place of $(NAME). Unknown names stay as they are, and $$ is a $.
func expand(text string, env []corev1.EnvVar) string {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(text, "$")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		if rest, is := strings.CutPrefix(after, "$"); is {
			b.WriteByte('$')
			text = rest
			continue
		}
		name, rest, closed := strings.Cut(strings.TrimPrefix(after, "("), ")")
		at := -1
		for i, e := range env { // the last of a name counts
			if e.Name == name {
				at = i
			}
		}
		if !strings.HasPrefix(after, "(") || !closed || at < 0 {
			b.WriteByte('$')
			text = after
			continue
		}
		b.WriteString(env[at].Value)
		text = rest
	}
}

// paths are the folders that replace paths in a container, the longest paths first.
type paths []struct{ path, folder string }

// paths are those of the container.
func (c *container) paths() paths {
	all := paths{{filepath.Clean(cmp.Or(c.spec.TerminationMessagePath, corev1.TerminationMessagePathDefault)), c.lastWill()}}
	for _, m := range c.spec.VolumeMounts {
		folder := filepath.Join(c.pod.folder, "volumes", m.Name, filepath.Clean("/"+m.SubPath))
		all = append(all, struct{ path, folder string }{filepath.Clean(m.MountPath), folder})
	}
	slices.SortStableFunc(all, func(a, b struct{ path, folder string }) int { return len(b.path) - len(a.path) })
	return all
}

func (p paths) has(path string) bool {
	return slices.ContainsFunc(p, func(m struct{ path, folder string }) bool { return m.path == path })
}

// in puts the folders in place of the paths in a text, where they are whole names.
func (p paths) in(text string) string {
	var b strings.Builder
next:
	for i := 0; i < len(text); {
		for _, m := range p {
			rest, is := strings.CutPrefix(text[i:], m.path)
			if is && begins(text[:i]) && ends(rest) {
				b.WriteString(m.folder)
				i += len(m.path)
				continue next
			}
		}
		b.WriteByte(text[i])
		i++
	}
	return b.String()
}

func begins(before string) bool {
	return before == "" || strings.HasSuffix(before, "://") || !partOfPath(before[len(before)-1]) && before[len(before)-1] != '/'
}

func ends(after string) bool { return after == "" || after[0] == '/' || !partOfPath(after[0]) }

func partOfPath(c byte) bool {
	return c == '.' || c == '-' || c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// lastLines are the last lines of a log, without their times.
func lastLines(file string) []byte {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	const most = 80
	lines := strings.SplitAfter(string(text), "\n")
	var b strings.Builder
	for _, l := range lines[max(0, len(lines)-1-most):] {
		_, rest, _ := strings.Cut(l, " ")
		b.WriteString(rest)
	}
	return []byte(b.String())
}
