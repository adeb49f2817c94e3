package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
)

// version is the release, set when one is linked: -ldflags '-X main.version=v1.2.3'.
var version string

// build is what the program was made of.
type build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified,omitempty"` // built from a tree with changes on top of Commit
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func newVersionCommand(env *cli.Env) *cobra.Command {
	var format cli.Output
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cli.NoArguments,
		RunE: func(*cobra.Command, []string) error {
			b := readBuild(debug.ReadBuildInfo())
			return format.Print(env.Stdout, b, b.table)
		},
	}
	cli.AddOutput(cmd, &format)
	return cmd
}

// readBuild takes the linked release's word before the build information's.
func readBuild(info *debug.BuildInfo, known bool) build {
	b := build{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if known {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				b.Commit = s.Value
			case "vcs.modified":
				b.Modified = s.Value == "true"
			}
		}
		if b.Version == "" {
			b.Version = info.Main.Version
		}
	}
	if b.Version == "" {
		b.Version = "(devel)"
	}
	return b
}

func (b build) table(w io.Writer) {
	commit := b.Commit
	if b.Modified {
		commit += ", modified"
	}
	if commit != "" {
		commit = " (" + commit + ")"
	}
	fmt.Fprintf(w, "plimsoll %s%s, %s, %s\n", b.Version, commit, b.Go, b.Platform)
}
