// Package prometheus asks Prometheus' own engine what podscaler/signals was asked, of the same
// samples, and compares. Both sides meet in files: testdata/twin.jsonl and testdata/presets.txt of
// podscaler/signals hold samples, queries and answers, and are checked there, too.
package prometheus
