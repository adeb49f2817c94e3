package kube

import (
	"log/slog"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

// LogTo sends what Kubernetes' libraries log by themselves to a logger, so that there is one
// stream. They have one logger for the whole process: call it once, before the first New.
func LogTo(l *slog.Logger) {
	klog.SetSlogLogger(l)
	ctrllog.SetLogger(logr.FromSlogHandler(l.Handler()))
}
