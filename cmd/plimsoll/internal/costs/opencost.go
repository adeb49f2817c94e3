package costs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/pricing"
)

// OpenCost is a server that speaks OpenCost's API.
type OpenCost struct {
	URL    *url.URL
	Client *http.Client
}

// Asset is what OpenCost says that a node cost, in the unit of the prices that it was given.
type Asset struct {
	Node string
	Cost pricing.Micros
	For  time.Duration // that it was there
}

// Errors of OpenCost that others distinguish.
var (
	// ErrNoOpenCost wraps what went wrong when there was no answer.
	ErrNoOpenCost = errors.New("no answer of OpenCost")
	// ErrOpenCostRefuses wraps what it has against a question.
	ErrOpenCostRefuses = errors.New("OpenCost refuses")
)

// assetLimit is how much of an answer is read: some thousands of nodes.
const assetLimit = 64 << 20

// Nodes are what nodes cost over a time, by name. Disks and networks, which OpenCost prices too,
// are none.
func (o *OpenCost) Nodes(ctx context.Context, from, to time.Time) ([]Asset, error) {
	at := o.URL.JoinPath("assets")
	at.RawQuery = url.Values{"window": {from.UTC().Format(time.RFC3339) + "," + to.UTC().Format(time.RFC3339)}}.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, err
	}
	response, err := o.Client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoOpenCost, err)
	}
	defer response.Body.Close() //nolint:errcheck // it was only read
	body, err := io.ReadAll(io.LimitReader(response.Body, assetLimit+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrNoOpenCost, err)
	case len(body) > assetLimit:
		return nil, fmt.Errorf("the answer of OpenCost is larger than %d MiB", assetLimit>>20)
	case response.StatusCode != http.StatusOK:
		line, _, _ := strings.Cut(strings.TrimSpace(string(body)), "\n")
		return nil, fmt.Errorf("%w: %s: %.200s", ErrOpenCostRefuses, response.Status, line)
	}
	list, err := assets(body)
	if err != nil {
		return nil, fmt.Errorf("the answer of OpenCost: %w", err)
	}
	return list, nil
}

// asset is as much of an asset as is read.
type asset struct {
	Type       string
	Properties struct{ Name string }
	Minutes    *float64
	TotalCost  *float64
}

// assets reads an answer: assets by keys of OpenCost's own, or a list of such sets, one after the
// other in time, as its relatives answer.
func assets(body []byte) ([]Asset, error) {
	var answer struct {
		Code int
		Data json.RawMessage
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, err
	}
	if answer.Code != http.StatusOK {
		return nil, fmt.Errorf("%w: code %d", ErrOpenCostRefuses, answer.Code)
	}
	var sets []map[string]asset
	if strings.HasPrefix(strings.TrimSpace(string(answer.Data)), "[") {
		if err := json.Unmarshal(answer.Data, &sets); err != nil {
			return nil, err
		}
	} else {
		sets = make([]map[string]asset, 1)
		if err := json.Unmarshal(answer.Data, &sets[0]); err != nil {
			return nil, err
		}
	}
	return added(sets)
}

// added adds up what is said of each node: one that was made anew is there under several keys.
func added(sets []map[string]asset) ([]Asset, error) {
	byName := map[string]Asset{}
	for _, set := range sets {
		for key, a := range set {
			if a.Type != "Node" {
				continue
			}
			if a.Properties.Name == "" || a.TotalCost == nil || a.Minutes == nil {
				return nil, fmt.Errorf("node %s has no properties.name, minutes or totalCost", key)
			}
			sum := byName[a.Properties.Name]
			sum.Node = a.Properties.Name
			sum.Cost += pricing.Micros(math.Round(*a.TotalCost * float64(pricing.Unit)))
			sum.For += time.Duration(*a.Minutes * float64(time.Minute))
			byName[sum.Node] = sum
		}
	}
	var all []Asset
	for _, a := range byName {
		all = append(all, a)
	}
	slices.SortFunc(all, func(a, b Asset) int { return cmp.Compare(a.Node, b.Node) })
	return all, nil
}
