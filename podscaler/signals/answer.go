package signals

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/common/model"
)

// The bounds of answers. They are read as they come, and nothing is kept of them but the labels
// that are asked for: what is kept of all that is under way at once is bounded, too.
const (
	maxSeries = 20000    // of an answer, and of a page
	maxSample = 64 << 10 // one series, as it is written
	maxRange  = 1 << 20  // likewise, with the values of a range
	maxLabel  = 1 << 10  // a label's value that is kept

	maxKept = 8 << 20 // of an answer
	// Of all answers to one namespace's owners, and as much of those to its presets.
	maxKeptOwn   = 16 << 20
	maxKeptAll   = 64 << 20 // of all answers to all owners
	maxKeptGroup = 64 << 20 // of all answers to presets, and to what is ours
)

// room is how much may still be kept.
type room struct {
	mu    sync.Mutex
	left  int64
	above *room // of which it is a part
}

// take takes a part of what is left, if there is as much.
func (r *room) take(bytes int64) bool {
	if r == nil {
		return true
	}
	r.mu.Lock()
	fits := r.left >= bytes
	if fits {
		r.left -= bytes
	}
	r.mu.Unlock()
	if fits && !r.above.take(bytes) {
		r.mu.Lock()
		r.left += bytes
		r.mu.Unlock()
		return false
	}
	return fits
}

// answer is what came of one query.
type answer struct {
	vector   model.Vector
	ranges   [][]model.SamplePair // of each series, where a range was asked for
	warnings string
	size     int64  // of what is kept
	code     string // of the finding, if err is not nil
	err      error
}

// decoding reads an answer of the Prometheus query API.
type decoding struct {
	ctx    context.Context
	labels []string // that are kept
	room   *room
	ranged bool // a range was asked for

	json *json.Decoder
	read int64

	status, kind string
	scalar       []json.RawMessage
	into         answer
	errorText    string
	hasSet       bool
}

// newDecoding reads an answer, of which it keeps some labels. It ends with the context.
func newDecoding(ctx context.Context, labels []string, above *room) *decoding {
	d := &decoding{ctx: ctx, labels: labels, room: &room{left: maxKept, above: above}}
	d.into.code = CodeMetricsUnknown
	return d
}

func (d *decoding) answer(body io.Reader) answer {
	d.json = json.NewDecoder(&portions{from: body, of: d})
	if err := d.all(); err != nil {
		return answer{code: CodeMetricsUnknown, err: err}
	}
	return d.into
}

// portions reads in small portions, and no more of a series than there is room for.
type portions struct {
	from io.Reader
	of   *decoding
}

func (p *portions) Read(into []byte) (int, error) {
	if err := p.of.ctx.Err(); err != nil {
		return 0, err
	}
	most := int64(maxSample)
	if p.of.ranged {
		most = maxRange
	}
	if p.of.read-p.of.json.InputOffset() > most {
		return 0, invalid("a part of the answer is longer than %d bytes", most)
	}
	const portion = 8 << 10
	n, err := p.from.Read(into[:min(len(into), portion)])
	p.of.read += int64(n)
	return n, err
}

func (d *decoding) all() error {
	err := d.object(func(key string) error {
		switch key {
		case "status":
			return d.json.Decode(&d.status)
		case "warnings":
			var all []string
			err := d.json.Decode(&all)
			all = slices.DeleteFunc(all, harmless)
			d.into.warnings = cmp.Or(short(strings.Join(all, "; ")), d.into.warnings)
			return err
		case "isPartial": // VictoriaMetrics, where a storage node does not answer
			var partial bool
			err := d.json.Decode(&partial)
			if partial {
				d.into.warnings = cmp.Or(d.into.warnings, "the answer is partial")
			}
			return err
		case "error":
			return d.json.Decode(&d.errorText)
		case "data":
			return d.object(d.data)
		}
		return d.skip()
	})
	switch {
	case d.ctx.Err() != nil:
		return failed(d.ctx, d.ctx.Err())
	case err != nil:
		if f, ok := errors.AsType[*failure](err); ok {
			return f
		}
		return invalid("%s", short(err.Error()))
	case d.status != "success":
		return invalid("status %q: %s", short(d.status), short(d.errorText))
	}
	return d.settle()
}

// harmless reports whether a warning is one of the query, not of the data, and no more than a
// notice. Prometheus before 3.0, and Thanos, have such among warnings: that a counter has an
// unusual name, say.
func harmless(warning string) bool { return strings.HasPrefix(warning, "PromQL info:") }

// settle looks at what was read by what the answer says that it is.
func (d *decoding) settle() error {
	switch {
	case d.ranged && d.kind == model.ValMatrix.String():
		return nil
	case d.ranged:
		return invalid("of a range the answer is of type %q", short(d.kind))
	case d.kind == model.ValVector.String() && len(d.scalar) == 0:
		return nil
	case d.kind == model.ValScalar.String() && len(d.into.vector) == 0:
		var pair model.SamplePair
		text, err := json.Marshal(d.scalar)
		if err == nil {
			err = json.Unmarshal(text, &pair)
		}
		if err != nil {
			return invalid("a scalar: %s", short(err.Error()))
		}
		d.into.vector = model.Vector{{Value: pair.Value, Timestamp: pair.Timestamp}}
		return nil
	case slices.Contains([]string{model.ValMatrix.String(), model.ValString.String()}, d.kind):
		return fmt.Errorf("the query answers with a %s, must be a number or a vector", d.kind)
	case d.kind == "":
		return errors.New("the query answers with nothing, must be a number or a vector")
	}
	return invalid("the answer is of type %q", short(d.kind))
}

// data reads what is below data.
func (d *decoding) data(key string) error {
	switch key {
	case "resultType":
		return d.json.Decode(&d.kind)
	case "result":
		if d.hasSet {
			return errors.New("there are two results")
		}
		d.hasSet = true
		return d.list(d.element)
	}
	return d.skip()
}

// series is a series as it is written.
type series struct {
	Metric    map[string]string
	Value     *model.SamplePair
	Values    []model.SamplePair // of a range
	Histogram *model.SampleHistogramPair
}

// element reads one of a result: a series of a vector or, where it is a scalar, its time and its
// value.
func (d *decoding) element() error {
	if err := d.ctx.Err(); err != nil {
		return err
	}
	var text json.RawMessage
	if err := d.json.Decode(&text); err != nil {
		return err
	}
	if len(text) == 0 || text[0] != '{' {
		if d.scalar = append(d.scalar, text); len(d.scalar) > 2 {
			return errors.New("a scalar must be a time and a value")
		}
		return nil
	}
	var s series
	if err := json.Unmarshal(text, &s); err != nil {
		return err
	}
	return d.keep(&s)
}

// keep keeps of a series what is asked for.
func (d *decoding) keep(s *series) error {
	if d.ranged {
		if !d.room.take(int64(16 * len(s.Values))) {
			return errors.New("there is no room for a range of so many series")
		}
		d.into.ranges = append(d.into.ranges, s.Values)
		return nil
	}
	if len(d.into.vector) == maxSeries {
		return fmt.Errorf("the answer has more than %d series", maxSeries)
	}
	sample := &model.Sample{Metric: model.Metric{}}
	size := int64(256)
	for _, name := range d.labels {
		value, there := s.Metric[name]
		if !there {
			continue
		}
		if len(value) > maxLabel {
			return fmt.Errorf("the value of label %s is longer than %d bytes", name, maxLabel)
		}
		sample.Metric[model.LabelName(name)] = model.LabelValue(value)
		size += 64 + int64(len(value))
	}
	if !d.room.take(size) {
		return errors.New("there is no room for an answer of so many series")
	}
	d.into.size += size
	switch {
	case s.Histogram != nil:
		// Nothing reads its buckets.
		sample.Timestamp, sample.Histogram = s.Histogram.Timestamp, &model.SampleHistogram{}
	case s.Value != nil:
		sample.Timestamp, sample.Value = s.Value.Timestamp, s.Value.Value
	case d.kind != model.ValMatrix.String():
		return errors.New("a series must have a value")
	}
	d.into.vector = append(d.into.vector, sample)
	return nil
}

// object reads an object key by key.
func (d *decoding) object(value func(key string) error) error {
	if err := expect(d.json, json.Delim('{')); err != nil {
		return err
	}
	for d.json.More() {
		key, err := d.json.Token()
		if err != nil {
			return err
		}
		if err := value(fmt.Sprint(key)); err != nil {
			return err
		}
	}
	return expect(d.json, json.Delim('}'))
}

// list reads a list, item by item; null is one with nothing in it.
func (d *decoding) list(item func() error) error {
	begin, err := d.json.Token()
	switch {
	case err != nil || begin == nil:
		return err
	case begin != json.Delim('['):
		return fmt.Errorf("a result must be a list, was %v", begin)
	}
	for d.json.More() {
		if err := item(); err != nil {
			return err
		}
	}
	return expect(d.json, json.Delim(']'))
}

func (d *decoding) skip() error {
	var skipped json.RawMessage
	return d.json.Decode(&skipped)
}
