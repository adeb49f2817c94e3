package doctor

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pveapi"
)

// connectionExam looks whether the API can be used.
type connectionExam struct {
	*examination
	prints []string // fingerprints that were shown and are not trusted
}

// examineConnection looks whether the endpoints answer, whether they are who they should be and
// whether they take the token.
func (e *connectionExam) examineConnection() {
	if e.connection.Insecure {
		e.add(Warn, "connection.insecure", "", []string{"insecure: false, and fingerprints or caFile"},
			"any certificate is accepted, so anybody in between can read the token and give orders")
	}
	probes := e.client.Probe(e.ctx)
	usable := slices.ContainsFunc(probes, func(p pveapi.EndpointStatus) bool { return p.Err == nil })
	e.found.Reached = slices.ContainsFunc(probes, func(p pveapi.EndpointStatus) bool { return !pveapi.Is(p.Err, pveapi.NoEndpoint, pveapi.Canceled) })
	for _, p := range probes {
		if shown, ok := pveapi.ShownFingerprint(p.Err); ok && !slices.Contains(e.prints, shown) {
			e.prints = append(e.prints, shown)
		}
	}
	for _, p := range probes {
		e.examineEndpoint(p, usable)
	}
	if !usable {
		e.stopped = "no endpoint can be used"
		return
	}
	e.ok("connection.token", e.who.String(), "the token %s is accepted", e.who)
	e.examineVersions(probes)
}

// examineEndpoint says how an endpoint is. One that is down while others answer is no fault: they
// are asked instead.
func (e *connectionExam) examineEndpoint(p pveapi.EndpointStatus, others bool) {
	var failed *pveapi.Error
	errors.As(p.Err, &failed)
	switch {
	case p.Err == nil:
		e.ok("connection.endpoint", p.Endpoint, "%s answers as Proxmox VE %s", p.Endpoint, p.Version.Version)
		e.examineExpiry(p.Endpoint)
	case pveapi.Is(p.Err, pveapi.Certificate):
		e.examineCertificate(p.Endpoint, failed, others)
	case pveapi.Is(p.Err, pveapi.Unauthorized) && e.checked("connection.token"):
	case pveapi.Is(p.Err, pveapi.Unauthorized):
		e.add(Fail, "connection.token", e.who.String(), []string{
			"pveum user token list " + pveapi.Shell(e.who.User),
			"pveum user token modify " + pveapi.Shell(e.who.User) + " " + pveapi.Shell(e.who.Token) + " --expire 0",
			"pveum user token remove " + pveapi.Shell(e.who.User) + " " + pveapi.Shell(e.who.Token) + ", then plimsoll pve setup --user " + pveapi.Shell(e.who.User) + " --token " + pveapi.Shell(e.who.Token) + ", and the new value into " + e.site.TokenFile,
		}, "%s does not accept the token %s (%s): it has expired, or its name or value is wrong", p.Endpoint, e.who, failed.Text())
	case others && pveapi.Is(p.Err, pveapi.NoEndpoint, pveapi.Unanswered):
		e.add(Warn, "connection.endpoint", p.Endpoint, nonEmpty(failed.Advice()), "%s does not answer, and others are asked instead: %s", p.Endpoint, failed.Text())
	case pveapi.Is(p.Err, pveapi.NoEndpoint, pveapi.Unanswered):
		e.add(Fail, "connection.endpoint", p.Endpoint, nonEmpty(failed.Advice()), "%s does not answer: %s", p.Endpoint, failed.Text())
	default:
		e.failed("connection.endpoint", p.Endpoint, p.Err)
	}
}

// examineCertificate reports a certificate that is not trusted, and the line that trusts it.
// Whether it should be, the cluster can say if another endpoint is trusted, and else only the host
// itself.
func (e *connectionExam) examineCertificate(endpoint string, failed *pveapi.Error, others bool) {
	shown, ok := pveapi.ShownFingerprint(failed)
	if !ok {
		e.add(Fail, "connection.certificate", endpoint, nonEmpty(failed.Advice()), "%s is not trusted: %s", endpoint, failed.Text())
		return
	}
	owner := ""
	if others {
		owner, _ = e.client.CertificateOwner(e.ctx, shown) // without it the host itself is asked
	}
	var fix []string
	if owner == "" {
		fix = append(fix, "pvenode cert info (on the host itself: what it shows there must be "+shown+")")
	}
	if e.site.CAFile != "" {
		fix = append(fix, "caFile: a copy of /etc/pve/pve-root-ca.pem, or of the authority that signed the host's certificate")
	} else {
		fix = append(fix, "fingerprints: ["+strings.Join(quoteAll(slices.Concat(e.site.Fingerprints, e.prints)), ", ")+"]")
	}
	says := ""
	if owner != "" {
		says = "; the cluster itself says that this is the certificate of " + owner
	}
	e.add(Fail, "connection.certificate", endpoint, fix, "%s is not trusted: it shows the fingerprint %s%s", endpoint, shown, says)
}

// renewed is how long before its end a certificate may be renewed.
const renewed = 30 * 24 * time.Hour

// examineExpiry reports until when a certificate that is trusted holds. A renewed one has another
// fingerprint.
func (e *connectionExam) examineExpiry(endpoint string) {
	if e.connection.Transport != nil {
		return // there is no certificate
	}
	certificate, err := pveapi.CertificateOf(e.ctx, endpoint)
	if err != nil {
		e.skip("connection.certificate", endpoint, "not looked at: the certificate of %s was not shown again: %s", endpoint, err)
		return
	}
	shown, until := pveapi.FingerprintOf(certificate), certificate.NotAfter.UTC().Format(time.DateOnly)
	switch {
	case certificate.NotAfter.Sub(e.now()) > renewed:
		e.ok("connection.certificate", endpoint, "%s shows the certificate %s, which holds until %s", endpoint, shown, until)
	case len(e.site.Fingerprints) > 0:
		e.add(Warn, "connection.certificate", endpoint, []string{
			"caFile: a copy of /etc/pve/pve-root-ca.pem, which outlives the hosts' certificates",
			"or the new one's fingerprint beside this one's, once it is renewed",
		}, "%s shows the certificate %s, which holds until %s: the one that follows it is not trusted", endpoint, shown, until)
	default:
		e.add(Warn, "connection.certificate", endpoint, []string{"pvenode cert info (on the host)"}, "%s shows the certificate %s, which holds until %s", endpoint, shown, until)
	}
}

func quoteAll(words []string) []string {
	all := make([]string, len(words))
	for i, w := range words {
		all[i] = `"` + w + `"`
	}
	return all
}

// examineVersions looks whether the release is one whose rights are known. While an upgrade goes
// on, the rights are those of the older one: the newer has lost what it does not know.
func (e *connectionExam) examineVersions(probes []pveapi.EndpointStatus) {
	e.release = 0
	releases := map[Release]bool{}
	for _, p := range probes {
		if p.Err != nil {
			continue
		}
		r, err := ParseRelease(p.Version.Version)
		if err != nil {
			r = Release9
			e.add(Warn, "connection.version", p.Endpoint, nil, "%s runs Proxmox VE %s, which is not known: its rights are taken to be those of %d", p.Endpoint, p.Version.Version, r)
		}
		releases[r] = true
		if e.release == 0 || r < e.release {
			e.release = r
		}
	}
	if len(releases) > 1 {
		e.add(Warn, "connection.version", "", []string{"finish the upgrade"}, "the hosts run different releases of Proxmox VE, and rights differ between them")
		return
	}
	e.ok("connection.version", "", "rights are those of Proxmox VE %d", e.release)
}
