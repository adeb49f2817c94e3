//go:build linux

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// port is the device of the agent's channel.
func port() string {
	names, _ := filepath.Glob("/sys/class/virtio-ports/*/name")
	for _, name := range names {
		if text, _ := os.ReadFile(name); strings.TrimSpace(string(text)) == "org.qemu.guest_agent.0" {
			return "/dev/" + filepath.Base(filepath.Dir(name))
		}
	}
	return ""
}

// serve answers on the agent's channel for as long as the system runs.
func serve() error {
	if !within(5*time.Second, func() bool { return port() != "" }) {
		return errors.New("there is no channel")
	}
	f, err := os.OpenFile(port(), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	in := bufio.NewReader(f)
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) { // no one listens on the host
			time.Sleep(20 * time.Millisecond)
			continue
		}
		if err != nil {
			return err
		}
		if _, err := f.Write(answer(bytes.TrimLeft(line, "\xff"))); err != nil {
			return err
		}
	}
}

// question is one line on the channel.
type question struct {
	Execute   string
	Arguments struct {
		ID   int64
		PID  int
		Path string
		Arg  []string
	}
}

func answer(line []byte) []byte {
	var q question
	var result any
	err := json.Unmarshal(line, &q)
	if err == nil {
		result, err = q.do()
	}
	var out []byte
	if err != nil {
		out, _ = json.Marshal(map[string]any{"error": map[string]any{"class": "GenericError", "desc": err.Error()}})
	} else {
		out, _ = json.Marshal(map[string]any{"return": result})
	}
	if q.Execute == "guest-sync-delimited" {
		out = append([]byte{0xff}, out...)
	}
	return append(out, '\n')
}

func (q *question) do() (any, error) {
	switch q.Execute {
	case "guest-sync", "guest-sync-delimited":
		return q.Arguments.ID, nil
	case "guest-ping":
		return struct{}{}, nil
	case "guest-get-host-name":
		name, err := os.Hostname()
		return map[string]any{"host-name": name}, err
	case "guest-network-get-interfaces":
		return interfaces()
	case "guest-exec":
		return execute(q.Arguments.Path, q.Arguments.Arg)
	case "guest-exec-status":
		return outcome(q.Arguments.PID)
	}
	return nil, fmt.Errorf("the command %s has not been found", q.Execute)
}

func interfaces() (any, error) {
	cards, err := net.Interfaces()
	all := []any{}
	for _, card := range cards {
		addresses, _ := card.Addrs()
		var shown []any
		for _, a := range addresses {
			if ip, is := a.(*net.IPNet); is && ip.IP.To4() != nil {
				bits, _ := ip.Mask.Size()
				shown = append(shown, map[string]any{"ip-address": ip.IP.String(), "ip-address-type": "ipv4", "prefix": bits})
			}
		}
		all = append(all, map[string]any{"name": card.Name, "hardware-address": card.HardwareAddr.String(), "ip-addresses": shown})
	}
	return all, err
}

// programs are those that have been run, with what came of them.
var programs []map[string]any

// execute runs a program to its end, which no one waits for long.
func execute(path string, args []string) (any, error) {
	cmd := exec.Command(path, args...)
	var out, wrong bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &wrong
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return nil, err
	}
	programs = append(programs, map[string]any{
		"exited": true, "exitcode": cmd.ProcessState.ExitCode(), "out-data": out.Bytes(), "err-data": wrong.Bytes(),
	})
	return map[string]any{"pid": len(programs)}, nil
}

func outcome(pid int) (any, error) {
	if pid < 1 || pid > len(programs) {
		return nil, errors.New("Invalid parameter 'pid'") //nolint:staticcheck // the agent's own words
	}
	return programs[pid-1], nil
}
