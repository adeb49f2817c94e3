package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// rootsFile is where Go looks first for the authorities that it trusts.
const rootsFile = "etc/ssl/certs/ca-certificates.crt"

// baseImage holds what a static binary needs of a system, as distroless' does: its user, the
// authorities that it trusts, and where it may write.
func baseImage(arch string) (v1.Image, error) {
	files, err := baseFiles()
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files)), nil })
	if err != nil {
		return nil, err
	}
	bare, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{
		OS: "linux", Architecture: arch, RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{User: "65532", WorkingDir: "/", Env: []string{
			"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "SSL_CERT_FILE=/" + rootsFile,
		}},
	})
	if err != nil {
		return nil, err
	}
	return mutate.AppendLayers(bare, layer)
}

// baseFiles is the layer, as a tar. Its times are zero, so that the same sources are the same
// image.
func baseFiles() ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range []struct {
		name string
		mode int64
		text []byte // none is a folder
	}{
		{"etc/", 0o755, nil},
		{"etc/passwd", 0o644, []byte("root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/:/sbin/nologin\n")},
		{"etc/group", 0o644, []byte("root:x:0:\nnonroot:x:65532:\n")},
		{"etc/ssl/", 0o755, nil},
		{"etc/ssl/certs/", 0o755, nil},
		{rootsFile, 0o644, roots()},
		{"tmp/", 0o1777, nil},
	} {
		head := tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.text)), Typeflag: tar.TypeReg, Format: tar.FormatUSTAR}
		if f.text == nil {
			head.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(&head); err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
		if _, err := w.Write(f.text); err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return out.Bytes(), w.Close()
}

// roots are the authorities that Mozilla trusts, in PEM. Those that it trusts within limits are
// omitted: a file cannot say limits.
func roots() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			out.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
		}
	}
	return out.Bytes()
}
