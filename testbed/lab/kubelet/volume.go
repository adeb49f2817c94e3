package kubelet

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// accountPath is where the files of service accounts are mounted.
const accountPath = "/var/run/secrets/kubernetes.io/serviceaccount"

// volume is a volume whose files are ours to write.
type volume struct {
	files  map[string]file
	tokens map[string]token // by path
	number int
}

type file struct {
	data []byte
	mode fs.FileMode
}

type token struct {
	text  string
	renew time.Time
}

// mount makes the pod's volumes as they should be now. It fails while something is missing that
// they must have; what was there before stays then.
func (p *pod) mount(ctx context.Context, o *corev1.Pod) error {
	if err := p.mountAccount(o); err != nil {
		return err
	}
	for i := range o.Spec.Volumes {
		v := &o.Spec.Volumes[i]
		folder, err := p.place("volumes", v.Name)
		if err != nil {
			return err
		}
		if v.EmptyDir != nil {
			continue
		}
		if p.volumes[v.Name] == nil {
			p.volumes[v.Name] = &volume{tokens: map[string]token{}}
		}
		files, err := p.content(ctx, o, v)
		if err == nil {
			err = p.adapt(o, v.Name, files)
		}
		if err == nil {
			err = p.volumes[v.Name].put(folder, files)
		}
		if err != nil {
			return fmt.Errorf("volume %s: %w", v.Name, err)
		}
	}
	return nil
}

// adapt changes files as the programs want them that they are mounted for.
func (p *pod) adapt(o *corev1.Pod, volume string, files map[string]file) error {
	as := Pod{Namespace: p.namespace, Name: p.name, IP: p.ip}
	if p.account != "" {
		as.Kubeconfig = p.kubeconfig()
	}
	for i := range o.Spec.Containers {
		c := &o.Spec.Containers[i]
		program := p.k.part.Programs[nameOf(c.Image)]
		for _, m := range c.VolumeMounts {
			if m.Name != volume || program.File == nil {
				continue
			}
			for name, f := range files {
				data, err := program.File(as, path.Join(m.MountPath, name), f.data)
				if err != nil {
					return err
				}
				files[name] = file{data, f.mode}
			}
		}
	}
	return nil
}

// kubeconfig is the file by which processes reach the API server as the pod's service account.
func (p *pod) kubeconfig() string { return filepath.Join(p.folder, "kubeconfig") }

// mountAccount writes that file, if the account's files are mounted.
func (p *pod) mountAccount(o *corev1.Pod) error {
	for i := range o.Spec.Containers {
		for _, m := range o.Spec.Containers[i].VolumeMounts {
			if path.Clean(m.MountPath) == accountPath {
				p.account = filepath.Join(p.folder, "volumes", m.Name)
			}
		}
	}
	if p.account == "" {
		return nil
	}
	c := clientcmdapi.NewConfig()
	c.Clusters["lab"] = &clientcmdapi.Cluster{Server: p.k.server, CertificateAuthority: p.k.ca}
	c.AuthInfos["account"] = &clientcmdapi.AuthInfo{TokenFile: filepath.Join(p.account, "token")}
	c.Contexts["lab"] = &clientcmdapi.Context{Cluster: "lab", AuthInfo: "account", Namespace: p.namespace}
	c.CurrentContext = "lab"
	text, err := clientcmd.Write(*c)
	if err != nil {
		return err
	}
	if there, err := os.ReadFile(p.kubeconfig()); err == nil && bytes.Equal(there, text) {
		return nil
	}
	if _, err := p.place(); err != nil {
		return err
	}
	return os.WriteFile(p.kubeconfig(), text, 0o600)
}

// content is what should be in a volume.
func (p *pod) content(ctx context.Context, o *corev1.Pod, v *corev1.Volume) (map[string]file, error) {
	var sources []corev1.VolumeProjection
	var mode *int32
	switch {
	case v.ConfigMap != nil:
		mode = v.ConfigMap.DefaultMode
		sources = append(sources, corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{
			LocalObjectReference: v.ConfigMap.LocalObjectReference, Items: v.ConfigMap.Items, Optional: v.ConfigMap.Optional,
		}})
	case v.Secret != nil:
		mode = v.Secret.DefaultMode
		sources = append(sources, corev1.VolumeProjection{Secret: &corev1.SecretProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: v.Secret.SecretName}, Items: v.Secret.Items, Optional: v.Secret.Optional,
		}})
	case v.DownwardAPI != nil:
		mode = v.DownwardAPI.DefaultMode
		sources = append(sources, corev1.VolumeProjection{DownwardAPI: &corev1.DownwardAPIProjection{Items: v.DownwardAPI.Items}})
	case v.Projected != nil:
		mode, sources = v.Projected.DefaultMode, v.Projected.Sources
	default:
		return nil, unsupported("other volumes than configMap, secret, emptyDir, projected and downwardAPI")
	}
	files := map[string]file{}
	for i := range sources {
		if err := p.project(ctx, o, p.volumes[v.Name], &sources[i], files, modeOr(mode, 0o644)); err != nil {
			return nil, err
		}
	}
	return files, nil
}

func modeOr(mode *int32, otherwise fs.FileMode) fs.FileMode {
	if mode == nil {
		return otherwise
	}
	return fs.FileMode(*mode) & fs.ModePerm //nolint:gosec // the API lets no other through
}

// project adds the files of one source.
func (p *pod) project(ctx context.Context, o *corev1.Pod, v *volume, s *corev1.VolumeProjection, files map[string]file, mode fs.FileMode) error {
	switch {
	case s.ConfigMap != nil:
		data, err := p.configMap(s.ConfigMap.Name)
		return pick(files, data, s.ConfigMap.Items, s.ConfigMap.Optional, mode, err)
	case s.Secret != nil:
		data, err := p.secret(s.Secret.Name)
		return pick(files, data, s.Secret.Items, s.Secret.Optional, mode, err)
	case s.DownwardAPI != nil:
		for _, i := range s.DownwardAPI.Items {
			if i.FieldRef == nil {
				return unsupported("resourceFieldRef")
			}
			text, err := p.field(o, i.FieldRef.FieldPath)
			if err != nil {
				return err
			}
			files[i.Path] = file{[]byte(text), modeOr(i.Mode, mode)}
		}
		return nil
	case s.ServiceAccountToken != nil:
		text, err := p.token(ctx, o, v, s.ServiceAccountToken)
		files[s.ServiceAccountToken.Path] = file{[]byte(text), 0o600}
		return err
	}
	return unsupported("other projections than configMap, secret, downwardAPI and serviceAccountToken")
}

// pick adds the items of an object, or all.
func pick(files map[string]file, data map[string][]byte, items []corev1.KeyToPath, optional *bool, mode fs.FileMode, err error) error {
	may := optional != nil && *optional
	if may && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if items == nil {
		for name, content := range data {
			files[name] = file{content, mode}
		}
		return nil
	}
	for _, i := range items {
		content, there := data[i.Key]
		if !there && !may {
			return fmt.Errorf("key %s: %w", i.Key, fs.ErrNotExist)
		}
		if there {
			files[i.Path] = file{content, modeOr(i.Mode, mode)}
		}
	}
	return nil
}

// configMap is what is in a ConfigMap of the pod's namespace.
func (p *pod) configMap(name string) (map[string][]byte, error) {
	c, err := p.k.objects.Core().V1().ConfigMaps().Lister().ConfigMaps(p.namespace).Get(name)
	if err != nil {
		// What is asked is a cache, which has no other fault.
		return nil, fmt.Errorf("the ConfigMap %s: %w", name, fs.ErrNotExist)
	}
	all := maps.Clone(c.BinaryData)
	if all == nil {
		all = map[string][]byte{}
	}
	for key, text := range c.Data {
		all[key] = []byte(text)
	}
	return all, nil
}

// secret is what is in a Secret of the pod's namespace.
func (p *pod) secret(name string) (map[string][]byte, error) {
	s, err := p.k.objects.Core().V1().Secrets().Lister().Secrets(p.namespace).Get(name)
	if err != nil {
		return nil, fmt.Errorf("the Secret %s: %w", name, fs.ErrNotExist)
	}
	return s.Data, nil
}

// token is one for the pod's service account, bound to the pod, and renewed long before it ends.
func (p *pod) token(ctx context.Context, o *corev1.Pod, v *volume, s *corev1.ServiceAccountTokenProjection) (string, error) {
	if had := v.tokens[s.Path]; time.Now().Before(had.renew) {
		return had.text, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	ask := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: s.ExpirationSeconds,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: o.Name, UID: o.UID},
	}}
	if s.Audience != "" {
		ask.Spec.Audiences = []string{s.Audience}
	}
	account := cmp.Or(o.Spec.ServiceAccountName, "default")
	made, err := p.k.client.CoreV1().ServiceAccounts(p.namespace).CreateToken(ctx, account, ask, metav1.CreateOptions{})
	if err != nil {
		if had := v.tokens[s.Path]; had.text != "" {
			return had.text, nil //nolint:nilerr // the API server is away, and the old one holds for a while
		}
		return "", fmt.Errorf("token of %s: %w", account, err)
	}
	now := time.Now()
	t := token{made.Status.Token, now.Add(made.Status.ExpirationTimestamp.Sub(now) / 2)}
	v.tokens[s.Path] = t
	return t.text, nil
}

// current leads to the files as they are now; those in the volume's folder lead through it.
const current = "..data"

// put makes the files those of the volume, all at once: whoever looks sees the old ones or the new
// ones.
func (v *volume) put(folder string, files map[string]file) error {
	same := func(a, b file) bool { return a.mode == b.mode && bytes.Equal(a.data, b.data) }
	if v.files != nil && maps.EqualFunc(v.files, files, same) {
		return nil
	}
	for name := range files {
		if !filepath.IsLocal(name) || strings.HasPrefix(name, "..") {
			return fmt.Errorf("file %q: must be below the volume", name)
		}
	}
	v.number++
	now := fmt.Sprintf("..%d_%d", time.Now().UnixMilli(), v.number)
	for name, f := range files {
		at := filepath.Join(folder, now, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(at, f.data, f.mode|0o400); err != nil {
			return err
		}
	}
	if err := turn(folder, now, files); err != nil {
		return err
	}
	v.files = files
	return nil
}

// turn lets the volume's folder show the files of a new folder in it, and removes what was shown
// before.
func turn(folder, now string, files map[string]file) error {
	if err := os.MkdirAll(filepath.Join(folder, now), 0o700); err != nil { // there may be no files
		return err
	}
	next := filepath.Join(folder, current+"_next")
	_ = os.Remove(next) // of one who did not come to the end
	if err := os.Symlink(now, next); err != nil {
		return err
	}
	if err := os.Rename(next, filepath.Join(folder, current)); err != nil {
		return err
	}
	var shown []string
	for name := range files {
		first, _, _ := strings.Cut(name, "/")
		shown = append(shown, first)
		err := os.Symlink(filepath.Join(current, first), filepath.Join(folder, first))
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	all, err := os.ReadDir(folder)
	for _, e := range all {
		if name := e.Name(); name != now && name != current && !slices.Contains(shown, name) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(folder, name)))
		}
	}
	return err
}
