package vmconf

import "testing"

func TestSizesAreReadAndWritten(t *testing.T) {
	for text, want := range map[string]int64{"1G": 1 << 30, "1024G": 1 << 40, "512": 512, "4M": 4 << 20, "1.5K": 1536, "2TiB": 2 << 40} {
		if got := ParseSize(text); got != want {
			t.Errorf("%s is %d, want %d", text, got, want)
		}
	}
	for n, want := range map[int64]string{1 << 30: "1G", 1 << 40: "1T", 512: "512", 4 << 20: "4M", 1536: "1536", 0: "0", 2560 << 20: "2560M"} {
		if got := PrintSize(n); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
}
