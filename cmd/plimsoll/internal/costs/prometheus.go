package costs

import (
	"context"
	"net/http"
	"net/url"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/prometheus"
)

// Prometheus is a server that speaks Prometheus' HTTP API, and how it is reached.
type Prometheus struct {
	URL    *url.URL
	Client *http.Client
	// Match are further matchers of the series that are read, as PromQL has them: cluster="home".
	Match string
}

// series is one series, with a value for each moment of a history; NaN without one.
type series prometheus.Series

// queryRange reads all series of a metric at the moments of a history.
func (p *Prometheus) queryRange(ctx context.Context, metric string, h *History) ([]series, error) {
	server := prometheus.Server{URL: p.URL, Client: p.Client}
	list, err := server.Range(ctx, metric+"{"+p.Match+"}", h.From, h.Step, h.points())
	if err != nil {
		return nil, err
	}
	out := make([]series, len(list))
	for i := range list {
		out[i] = series(list[i])
	}
	return out, nil
}
