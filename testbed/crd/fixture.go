package crd

import (
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// Fixture is a manifest in a file of its own, with what an API server says to it.
//
// Lines of comment at its head that begin with "refused:" are the faults that it is refused for,
// all of them. Where there are several documents, the first is accepted, and the others are updates
// of it that are refused.
type Fixture struct {
	Name      string
	Documents [][]byte
	Refused   []string
}

const refused = "# refused: "

// Fixtures reads the fixtures of a folder, by name.
func Fixtures(folder fs.FS) ([]Fixture, error) {
	names, err := fs.Glob(folder, "*.yaml")
	if err != nil {
		return nil, err
	}
	var all []Fixture
	for _, name := range names {
		data, err := fs.ReadFile(folder, name)
		if err != nil {
			return nil, err
		}
		f := Fixture{Name: strings.TrimSuffix(path.Base(name), ".yaml"), Documents: bytes.Split(data, []byte("\n---\n"))}
		for line := range strings.Lines(string(data)) {
			if fault, ok := strings.CutPrefix(strings.TrimSpace(line), refused); ok {
				f.Refused = append(f.Refused, fault)
			}
		}
		all = append(all, f)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no fixtures")
	}
	return all, nil
}

// Rewrite is a fixture's text with other faults.
func (f *Fixture) Rewrite(faults []string) []byte {
	var out bytes.Buffer
	written := false
	for line := range strings.Lines(string(bytes.Join(f.Documents, []byte("\n---\n")))) {
		if strings.HasPrefix(line, refused) {
			continue
		}
		if !written && !strings.HasPrefix(line, "#") {
			for _, fault := range faults {
				out.WriteString(refused + fault + "\n")
			}
			written = true
		}
		out.WriteString(line)
	}
	return out.Bytes()
}

// Blocks are the manifests of ours in a text of Markdown.
func Blocks(markdown []byte) [][]byte {
	var all [][]byte
	for _, block := range bytes.Split(markdown, []byte("\n```yaml\n"))[1:] {
		text, _, _ := bytes.Cut(block, []byte("\n```"))
		if bytes.Contains(text, []byte("apiVersion: plimsoll.dev/")) {
			all = append(all, append(text, '\n'))
		}
	}
	return all
}
