package costs

import "testing"

// FuzzAssets reads answers of any server that calls itself OpenCost.
func FuzzAssets(f *testing.F) {
	f.Add([]byte(`{"code":200,"data":{"a":{"type":"Node","properties":{"name":"w-1"},"minutes":60,"totalCost":0.5}}}`))
	f.Add([]byte(`{"code":200,"data":[{"a":{"type":"Node"}},null]}`))
	f.Add([]byte(`{"code":200}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		list, err := assets(body)
		for _, a := range list {
			if err == nil && a.Node == "" {
				t.Error("an asset without a name")
			}
		}
	})
}
