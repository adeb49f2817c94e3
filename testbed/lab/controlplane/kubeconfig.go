package main

import (
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Who gets a kubeconfig in any case. What the servers do is found under their names in the audit
// log; the group lets the first of them do everything, the others get their rights from the roles
// that Kubernetes gives them.
var (
	admin = user{"admin", []string{"system:masters"}}
	own   = users{
		admin,
		{"system:kube-controller-manager", nil},
		{"system:kube-scheduler", nil},
	}
)

// kubeconfig is where the kubeconfig of a user is written.
func (p *plane) kubeconfig(name string) string {
	return filepath.Join(p.folder, name+".kubeconfig")
}

// writeKubeconfig writes a kubeconfig that holds all it needs, so that the file can be moved.
func (p *plane) writeKubeconfig(who user) error {
	file := "user-" + who.name
	if err := p.pki.client(file, who, p.ca); err != nil {
		return err
	}
	c := clientcmdapi.NewConfig()
	c.Clusters["lab"] = &clientcmdapi.Cluster{Server: p.url, CertificateAuthority: p.pki.cert("ca")}
	c.AuthInfos[who.name] = &clientcmdapi.AuthInfo{ClientCertificate: p.pki.cert(file), ClientKey: p.pki.key(file)}
	c.Contexts["lab"] = &clientcmdapi.Context{Cluster: "lab", AuthInfo: who.name}
	c.CurrentContext = "lab"
	if err := clientcmdapi.FlattenConfig(c); err != nil {
		return err
	}
	text, err := clientcmd.Write(*c)
	if err != nil {
		return err
	}
	return writeFile(p.kubeconfig(who.name), text)
}
