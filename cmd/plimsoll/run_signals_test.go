package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/podscaler/signals"
)

// A line break at the end, as a Secret that was made of a file has it, is no part of what it holds.
func TestWhatASecretHolds(t *testing.T) {
	for _, c := range []struct {
		name string
		data map[string]string
		want signals.Credentials
		err  string
	}{
		{"a token of a file", map[string]string{"token": "s3cret\n"}, signals.Credentials{Token: "s3cret"}, ""},
		{"one of Windows'", map[string]string{"username": "\ufeffplimsoll\r\n", "password": "a b\r\n"}, signals.Credentials{Username: "plimsoll", Password: "a b"}, ""},
		{"certificates are as they are", map[string]string{"ca.crt": "A\nB\n"}, signals.Credentials{CA: []byte("A\nB\n")}, ""},
		{
			"lines", map[string]string{"token": "s3cret\nmore\n", "password": "a\rb"}, signals.Credentials{Token: "s3cret\nmore", Password: "a\rb"},
			"token: must be one line, and has 2\npassword: must be one line, and has 2",
		},
		{"nothing", nil, signals.Credentials{}, ""},
	} {
		data := map[string][]byte{}
		for key, value := range c.data {
			data[key] = []byte(value)
		}
		got, err := credentialsOf(data)
		text := ""
		if err != nil {
			text = err.Error()
		}
		if d := cmp.Diff(c.want, got); d != "" || text != c.err {
			t.Errorf("%s: %q, -want +got:\n%s", c.name, text, d)
		}
	}
}
