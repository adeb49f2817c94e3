package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
)

// list writes beside a program what it is made of, in SPDX 2.3: the modules that Go wrote into it,
// with their versions and sums. It says nothing of licences, which Go does not write.
func (r *release) list(program string) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(text)
	name := filepath.Base(program)
	packages := []map[string]any{{
		"SPDXID": "SPDXRef-" + r.Name, "name": info.Main.Path, "versionInfo": r.Version, "downloadLocation": "NOASSERTION", "filesAnalyzed": false,
		"packageFileName": name, "checksums": []any{map[string]string{"algorithm": "SHA256", "checksumValue": hex.EncodeToString(sum[:])}},
		"licenseConcluded": "NOASSERTION", "licenseDeclared": "Apache-2.0", "copyrightText": "NOASSERTION",
	}}
	relations := []map[string]string{{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": "SPDXRef-" + r.Name}}
	parts := append([]*debug.Module{{Path: "std", Version: strings.TrimPrefix(info.GoVersion, "go")}}, info.Deps...)
	for i, m := range parts {
		if m.Replace != nil {
			m = m.Replace
		}
		id := fmt.Sprintf("SPDXRef-module-%d", i)
		part := map[string]any{
			"SPDXID": id, "name": m.Path, "versionInfo": m.Version, "downloadLocation": "NOASSERTION", "filesAnalyzed": false,
			"licenseConcluded": "NOASSERTION", "licenseDeclared": "NOASSERTION", "copyrightText": "NOASSERTION",
			"externalRefs": []any{map[string]string{
				"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": "pkg:golang/" + m.Path + "@" + m.Version,
			}},
		}
		if m.Sum != "" {
			part["comment"] = "go.sum: " + m.Sum
		}
		packages = append(packages, part)
		relations = append(relations, map[string]string{"spdxElementId": "SPDXRef-" + r.Name, "relationshipType": "DEPENDS_ON", "relatedSpdxElement": id})
	}
	list, err := json.MarshalIndent(map[string]any{
		"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": name,
		"documentNamespace": "https://spdx.invalid/" + name + "-" + hex.EncodeToString(sum[:]),
		// A fixed time: the list is the same for a program, whenever it is made.
		"creationInfo": map[string]any{"created": "1970-01-01T00:00:00Z", "creators": []string{"Tool: plimsoll-release"}},
		"packages":     packages, "relationships": relations,
	}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(program+".spdx.json", append(list, '\n'), 0o644)
}
