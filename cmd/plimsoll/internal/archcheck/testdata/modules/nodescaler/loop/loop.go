// Package loop counts.
package loop

import "github.com/prometheus/client_golang/prometheus"
