package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// K6Variable is the environment variable that names the k6 to use: a file, or BuildK6.
const K6Variable = "PLIMSOLL_K6"

// BuildK6 is the value of K6Variable that has k6 built even if there is one on PATH.
const BuildK6 = "build"

// leastK6 is the release that the scripts are tried with, but for its patches: what is found must
// be as new.
var leastK6 = release{1, 8}

// release is a version's major and minor number.
type release struct{ major, minor int }

func (r release) String() string { return fmt.Sprintf("v%d.%d", r.major, r.minor) }

// serves reports whether a k6 runs our scripts: those of another major release may not.
func (r release) serves() bool { return r.major == leastK6.major && r.minor >= leastK6.minor }

// k6 returns a k6 that runs the scripts: the one that K6Variable names, one on PATH that is new
// enough, or one that is built.
func (b Toolbox) k6(ctx context.Context) (string, error) {
	named := os.Getenv(K6Variable)
	if named != "" && named != BuildK6 {
		return b.forcedK6(ctx, named)
	}
	if named == "" {
		if file := b.k6OnPath(ctx); file != "" {
			return file, nil
		}
	}
	return b.built(ctx, ToolK6)
}

// forcedK6 is the k6 of the environment variable. No other takes its place.
func (b Toolbox) forcedK6(ctx context.Context, file string) (string, error) {
	v, r, err := k6Version(ctx, file)
	if err == nil && !r.serves() {
		err = fmt.Errorf("it is %s", v)
	}
	if err != nil {
		return "", fmt.Errorf("%s: must be a k6 from %s on, below v%d, or %s, was %q: %w", K6Variable, leastK6, leastK6.major+1, BuildK6, file, err)
	}
	b.say("k6 is %s, %s, as %s says", file, v, K6Variable)
	return filepath.Abs(file)
}

// k6OnPath is a k6 on PATH that serves, or "".
func (b Toolbox) k6OnPath(ctx context.Context) string {
	file, err := exec.LookPath("k6")
	if err != nil {
		return "" // not there, or in this folder and not on PATH
	}
	v, r, err := k6Version(ctx, file)
	switch {
	case err != nil:
		b.say("k6 on PATH is not used: %s: %v", file, err)
	case !r.serves():
		b.say("k6 on PATH is not used: %s is %s, and it takes one from %s on, below v%d", file, v, leastK6, leastK6.major+1)
	default:
		b.say("k6 is %s, %s, found on PATH", file, v)
		return file
	}
	return ""
}

// k6Says is the first line of what k6 answers when it is asked for its version; it goes by its
// file's name.
var k6Says = regexp.MustCompile(`^\S*k6\S* (v(\d{1,6})\.(\d{1,6})\.\d+\S*)`)

// k6Version asks a program which k6 it is.
func k6Version(ctx context.Context, file string) (string, release, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, file, "version")
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if ctx.Err() != nil {
		err = errors.New("it does not answer")
	}
	if err != nil {
		return "", release{}, fmt.Errorf("asked for its version: %w", err)
	}
	m := k6Says.FindStringSubmatch(string(out))
	if m == nil {
		line, _, _ := strings.Cut(string(out), "\n")
		return "", release{}, fmt.Errorf("asked for its version, it says %q", line)
	}
	major, majorErr := strconv.Atoi(m[2])
	minor, minorErr := strconv.Atoi(m[3])
	return m[1], release{major, minor}, cmp.Or(majorErr, minorErr)
}
