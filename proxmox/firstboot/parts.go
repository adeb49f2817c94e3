package firstboot

import (
	"encoding/base64"
	"slices"
	"strings"
)

// partTypes are what user-data may begin with, and what it is then.
var partTypes = []struct{ begins, mime string }{
	{"#cloud-config\n", "text/cloud-config"},
	{"## template: jinja\n#cloud-config\n", "text/jinja2"},
	{"#!", "text/x-shellscript"},
	{"#cloud-boothook\n", "text/cloud-boothook"},
}

// partType returns the type of a user-data text, or "".
func partType(s string) string {
	for _, t := range partTypes {
		if strings.HasPrefix(s, t.begins) {
			return t.mime
		}
	}
	return ""
}

// checkCloudConfig checks what is to go beside the profile's own cloud-config.
func (p *Profile) checkCloudConfig(f *faults) {
	s := string(p.CloudConfig)
	if s == "" {
		return
	}
	f.must(partType(s) != "", "cloudConfigFile", "must begin with a line #cloud-config, perhaps after ## template: jinja, #! or #cloud-boothook", hidden(p.CloudConfig))
	// These would say how the profile's own keys are merged, which decides whether a machine joins.
	for line := range strings.Lines(s) {
		for _, key := range []string{"merge_how", "merge_type"} {
			f.must(!strings.HasPrefix(strings.TrimLeft(line, `"'`), key), "cloudConfigFile", "must not say how it is merged", key)
		}
	}
}

// mergeType is how cloud-init merges a cloud-config into the one before it: lists in front, and
// nothing replaced.
const mergeType = "list(prepend)+dict(no_replace,recurse_list)+str()"

const boundary = "=_plimsoll_user_data"

// parts puts the profile's cloud-config and the operator's user-data together, or returns the
// former as it is. Parts are in base64, where no line looks like a boundary and no letter is
// lost.
func (p *Profile) parts(own string) string {
	// Anything with this in it is read as a message of parts.
	if p.CloudConfig == "" && !strings.Contains(strings.ToLower(own), "mime-version:") {
		return own
	}
	var b strings.Builder
	b.WriteString("MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"" + boundary + "\"\n")
	part := func(kind, name, merge, content string) {
		b.WriteString("\n--" + boundary + "\n")
		b.WriteString("Content-Type: " + kind + "; charset=\"utf-8\"\n")
		b.WriteString("Content-Transfer-Encoding: base64\n")
		b.WriteString("Content-Disposition: attachment; filename=\"" + name + "\"\n")
		if merge != "" {
			b.WriteString("Merge-Type: " + merge + "\n")
		}
		b.WriteByte('\n')
		for line := range slices.Chunk([]byte(base64.StdEncoding.EncodeToString([]byte(content))), 76) {
			b.Write(line)
			b.WriteByte('\n')
		}
	}
	part("text/cloud-config", "10-plimsoll", "", own)
	if s := string(p.CloudConfig); s != "" {
		merge := mergeType
		if kind := partType(s); kind != "text/cloud-config" && kind != "text/jinja2" {
			merge = ""
		}
		part(partType(s), "20-operator", merge, s)
	}
	b.WriteString("\n--" + boundary + "--\n")
	return b.String()
}
