package machines

import (
	"testing"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
)

func TestTagsAreNormal(t *testing.T) {
	for _, test := range []struct{ style, text, want string }{
		{"", "Foo,bar baz;foo", "bar;baz;foo"},
		{"", "", ""},
		{"case-sensitive=1", "Foo,foo", "Foo;foo"},
		{"ordering=config", "b;a;B", "b;a"},
	} {
		w := &world.World{Options: map[string]any{"tag-style": test.style}}
		if got := normalTags(w, test.text); got != test.want {
			t.Errorf("%q in style %q: got %q, want %q", test.text, test.style, got, test.want)
		}
	}
}
