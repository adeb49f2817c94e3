package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/crypto/x509roots/fallback/bundle"
	"sigs.k8s.io/yaml"
)

// The media types of images and their parts.
const (
	manifestType = "application/vnd.oci.image.manifest.v1+json"
	indexType    = "application/vnd.oci.image.index.v1+json"
	configType   = "application/vnd.oci.image.config.v1+json"
	layerType    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// descriptor names a blob.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    map[string]string `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// layout is a folder in the form that skopeo, crane, oras and helm push to a registry.
type layout struct{ folder string }

func (l *layout) blob(text []byte, kind string) (descriptor, error) {
	sum := sha256.Sum256(text)
	d := descriptor{MediaType: kind, Digest: "sha256:" + hex.EncodeToString(sum[:]), Size: len(text)}
	folder := filepath.Join(l.folder, "blobs", "sha256")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return d, err
	}
	return d, os.WriteFile(filepath.Join(folder, hex.EncodeToString(sum[:])), text, 0o644)
}

// layer is a blob with the sum of what is packed in it.
type layer struct {
	descriptor
	inside string
}

func (l *layout) layer(text []byte) (layer, error) {
	sum := sha256.Sum256(text)
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write(text)
	if err = errors.Join(err, w.Close()); err != nil {
		return layer{}, err
	}
	d, err := l.blob(out.Bytes(), layerType)
	return layer{d, "sha256:" + hex.EncodeToString(sum[:])}, err
}

func (l *layout) object(v any, kind string) (descriptor, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return descriptor{}, err
	}
	return l.blob(text, kind)
}

func (l *layout) manifest(config descriptor, layers []descriptor) (descriptor, error) {
	return l.object(map[string]any{"schemaVersion": 2, "mediaType": manifestType, "config": config, "layers": layers}, manifestType)
}

// index finishes the layout with a name for what it holds.
func (l *layout) index(manifests []descriptor, tag string) error {
	for i := range manifests {
		manifests[i].Annotations = map[string]string{"org.opencontainers.image.ref.name": tag}
	}
	text, err := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": indexType, "manifests": manifests})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(l.folder, "oci-layout"), []byte(`{"imageLayoutVersion":"1.0.0"}`), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(l.folder, "index.json"), text, 0o644)
}

// chartMeta is a chart's Chart.yaml as registries of charts want it. Its version is the release's.
func chartMeta(file, version string) ([]byte, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	meta := map[string]any{}
	if err := yaml.Unmarshal(text, &meta); err != nil {
		return nil, err
	}
	if meta["version"] != version || meta["appVersion"] != version {
		return nil, fmt.Errorf("version and appVersion must be that of the release, %s, were %v and %v", version, meta["version"], meta["appVersion"])
	}
	return json.Marshal(meta)
}

// image writes the container image of both architectures: what a static program needs of a system,
// and the program.
func (r *release) image(programs map[string]string) error {
	l := &layout{folder: filepath.Join(r.Out, r.Name+"-image.oci")}
	system, err := archive([]file{
		{"etc/", 0o755, nil},
		{"etc/passwd", 0o644, []byte("root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/:/sbin/nologin\n")},
		{"etc/group", 0o644, []byte("root:x:0:\nnonroot:x:65532:\n")},
		{"etc/ssl/", 0o755, nil}, {"etc/ssl/certs/", 0o755, nil}, {"etc/ssl/certs/ca-certificates.crt", 0o644, authorities()},
		{"tmp/", 0o1777, nil},
	})
	if err != nil {
		return err
	}
	base, err := l.layer(system)
	if err != nil {
		return err
	}
	var manifests []descriptor
	for _, arch := range architectures {
		d, err := r.imageOf(l, base, arch, programs[arch])
		if err != nil {
			return err
		}
		manifests = append(manifests, d)
	}
	all, err := l.object(map[string]any{"schemaVersion": 2, "mediaType": indexType, "manifests": manifests}, indexType)
	if err != nil {
		return err
	}
	if err := l.index([]descriptor{all}, r.Version); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.Out, r.Name+"-image.digest"), []byte(all.Digest+"\n"), 0o644)
}

// imageOf is the image of one architecture.
func (r *release) imageOf(l *layout, base layer, arch, program string) (descriptor, error) {
	text, err := os.ReadFile(program)
	if err != nil {
		return descriptor{}, err
	}
	packed, err := archive([]file{{"usr/", 0o755, nil}, {"usr/bin/", 0o755, nil}, {"usr/bin/" + r.Name, 0o755, text}})
	if err != nil {
		return descriptor{}, err
	}
	top, err := l.layer(packed)
	if err != nil {
		return descriptor{}, err
	}
	config, err := l.object(map[string]any{
		"architecture": arch, "os": "linux", "rootfs": map[string]any{"type": "layers", "diff_ids": []string{base.inside, top.inside}},
		"config": map[string]any{
			"User": "65532", "WorkingDir": "/", "Entrypoint": []string{"/usr/bin/" + r.Name},
			"Env":    []string{"PATH=/usr/bin:/bin", "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"},
			"Labels": map[string]string{"org.opencontainers.image.version": r.Version, "org.opencontainers.image.licenses": "Apache-2.0"},
		},
	}, configType)
	if err != nil {
		return descriptor{}, err
	}
	d, err := l.manifest(config, []descriptor{base.descriptor, top.descriptor})
	d.Platform = map[string]string{"os": "linux", "architecture": arch}
	return d, err
}

// file is one of an archive; without a text it is a folder.
type file struct {
	name string
	mode int64
	text []byte
}

// archive is a tar whose times are zero.
func archive(files []file) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		kind := byte(tar.TypeReg)
		if f.text == nil {
			kind = tar.TypeDir
		}
		if err := w.WriteHeader(&tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.text)), Typeflag: kind, Format: tar.FormatUSTAR}); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.text); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), w.Close()
}

// authorities are those that browsers trust, as Mozilla lists them.
func authorities() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		_ = pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // to memory
	}
	return out.Bytes()
}
