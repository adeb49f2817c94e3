package pveapi

import "testing"

// What is in an answer is the same whether or not it has anything besides its data.
func TestUnwrap(t *testing.T) {
	for body, want := range map[string]string{
		`{"data":[1,2]}`: `[1,2]`, `{"data":null}`: `null`, `{"data":{"a":"}"}}`: `{"a":"}"}`, `{"data":"x"} `: `"x"`,
		`{"data":[1],"total":3}`: `[1]`, `{"total":3,"data":[1]}`: `[1]`, `{"data":1,"data":2}`: `2`, `{"data":{},"x":{}}`: `{}`,
		`{"data":}`: "", `{"data":[1}`: "", `{"data":1}}`: "", `{}`: "", `{"data"`: "", `[]`: "", `{"data":1,}`: "", `{"data": 5}`: `5`,
	} {
		data, fault := unwrap([]byte(body))
		if string(data) != want || (fault == "") != (want != "") {
			t.Errorf("%s: got %q (%s), want %q", body, data, fault, want)
		}
	}
}
