// Package lab runs a small real world on one machine: a Kubernetes control plane with the real
// HorizontalPodAutoscaler and scheduler, nodes and pods that KWOK pretends, Prometheus, and what
// else is handed in as a Part. Everything listens on loopback, keeps its files in one folder, and
// needs neither root nor containers. Several labs can be up at once.
//
//	l, err := lab.Up(ctx, lab.Config{Data: folder, Parts: []lab.Part{&lab.KWOK{}}})
//	defer l.Down()
//	pods := kubernetes.NewForConfigOrDie(l.REST()).CoreV1().Pods("default")
//
// The programs are built by Go from this module's checkout when they are first needed, once per
// machine.
package lab
