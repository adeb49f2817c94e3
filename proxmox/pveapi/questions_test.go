package pveapi

import (
	"context"
	"errors"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// questions are the paths of recorded requests that we ask too, and how. The answer must have been
// read, and hold what each of its kind does.
var questions = map[string]struct {
	path *regexp.Regexp
	ask  func(ctx context.Context, c *Client, m []string, query string) error
}{
	"Version": {regexp.MustCompile(`^/version$`), func(ctx context.Context, c *Client, _ []string, _ string) error {
		v, err := c.Version(ctx)
		return must(err, strings.HasPrefix(v.Version, v.Release) && v.Release != "")
	}},
	"ClusterStatus": {regexp.MustCompile(`^/cluster/status$`), func(ctx context.Context, c *Client, _ []string, _ string) error {
		s, err := c.ClusterStatus(ctx)
		return must(err, len(s.Nodes) > 0 && s.Nodes[0].Name == "pve1" && s.Nodes[0].IP != "")
	}},
	"Resources": {regexp.MustCompile(`^/cluster/resources$`), func(ctx context.Context, c *Client, _ []string, _ string) error {
		all, err := c.Resources(ctx)
		for _, r := range all {
			if r.ID == "" || r.Type == "" || r.Type == "qemu" && (r.VMID == 0 || r.Node == "" || r.Status == "" ||
				r.Status != "unknown" && (r.MaxMem == nil || r.Template == nil || r.Name == "")) {
				return must(err, false)
			}
		}
		return err
	}},
	"Permissions": {regexp.MustCompile(`^/access/permissions$`), func(ctx context.Context, c *Client, _ []string, _ string) error {
		_, err := c.Access().Permissions(ctx)
		return err
	}},
	"Roles": {regexp.MustCompile(`^/access/roles$`), func(ctx context.Context, c *Client, _ []string, _ string) error {
		all, err := c.Access().Roles(ctx)
		return must(err, len(all["PVEVMAdmin"]) > 5)
	}},
	"Pool": {regexp.MustCompile(`^/pools$`), func(ctx context.Context, c *Client, _ []string, query string) error {
		values, _ := url.ParseQuery(query)
		p, err := c.Pool(ctx, values.Get("poolid"))
		for _, m := range p.Members {
			if m.VMID == 0 || m.Node == "" {
				return must(err, false)
			}
		}
		return must(err, p.Name != "")
	}},
	"Config": {regexp.MustCompile(`^/nodes/(\w+)/qemu/(\d+)/config$`), func(ctx context.Context, c *Client, m []string, _ string) error {
		v, err := c.VM(m[1], number(m[2])).Config(ctx)
		return must(err, v.Digest != "" && v.Memory > 0 && (v.Lock == "clone" || v.Name != "" && v.UUID != ""))
	}},
	"Status": {regexp.MustCompile(`^/nodes/(\w+)/qemu/(\d+)/status/current$`), func(ctx context.Context, c *Client, m []string, _ string) error {
		s, err := c.VM(m[1], number(m[2])).Status(ctx)
		return must(err, (s.Status == "running" || s.Status == "stopped") && s.QMPStatus != "" && s.Name != "")
	}},
	"Networks": {regexp.MustCompile(`^/nodes/(\w+)/network$`), func(ctx context.Context, c *Client, m []string, _ string) error {
		_, err := c.Networks(ctx, m[1])
		return err
	}},
	"Storages": {regexp.MustCompile(`^/nodes/(\w+)/storage$`), func(ctx context.Context, c *Client, m []string, _ string) error {
		all, err := c.Storages(ctx, m[1])
		for _, s := range all {
			if s.Name == "" || !s.Sized || !s.Active || len(s.Content) == 0 {
				return must(err, false)
			}
		}
		return err
	}},
	"Volumes": {regexp.MustCompile(`^/nodes/(\w+)/storage/(\w+)/content$`), func(ctx context.Context, c *Client, m []string, _ string) error {
		all, err := c.Volumes(ctx, m[1], m[2], "", 0)
		for _, v := range all {
			if v.Storage != m[2] || v.Created.IsZero() || v.Content == "images" && v.VMID == 0 {
				return must(err, false)
			}
		}
		return err
	}},
	"Tasks": {regexp.MustCompile(`^/nodes/(\w+)/tasks$`), func(ctx context.Context, c *Client, m []string, _ string) error {
		all, err := c.Tasks(ctx, m[1], time.Time{})
		for _, s := range all {
			if s.Running || s.Exit == "" || s.Ended.Before(s.Started) {
				return must(err, false)
			}
		}
		return err
	}},
	"Task": {regexp.MustCompile(`^/nodes/\w+/tasks/(UPID[^/]*)/status$`), func(ctx context.Context, c *Client, m []string, _ string) error {
		name, _ := url.PathUnescape(m[1])
		s, err := c.Task(ctx, UPID(name))
		return must(err, s.Running != (s.Exit != ""))
	}},
	"TaskLog": {regexp.MustCompile(`^/nodes/\w+/tasks/(UPID[^/]*)/log$`), func(ctx context.Context, c *Client, m []string, _ string) error {
		name, _ := url.PathUnescape(m[1])
		lines, err := c.TaskLog(ctx, UPID(name), 100)
		if Is(err, NoTask) {
			return nil
		}
		return must(err, len(lines) > 0)
	}},
}

func number(text string) int {
	n, _ := strconv.Atoi(text)
	return n
}

func must(err error, ok bool) error {
	if err == nil && !ok {
		return errors.New("what each answer of this kind has is missing")
	}
	return err
}
