package guests

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"
)

// How long may be waited for an answer. A ping is repeated, for a guest that is reset hears nothing
// of what it was asked before.
const (
	patience     = 20 * time.Second
	pingPatience = 2 * time.Second
)

// question and reply are what QEMU's monitor and the guest's agent both speak, a line each.
type question struct {
	Execute   string         `json:"execute"`
	Arguments map[string]any `json:"arguments,omitempty"`
}

type reply struct {
	Return json.RawMessage
	Error  *struct{ Desc string }
	Event  string
}

// line is a connection to a machine's monitor or agent.
type line struct {
	net.Conn
	in *bufio.Reader
}

func dial(socket string, limit time.Duration) (*line, error) {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return nil, err
	}
	return &line{conn, bufio.NewReader(conn)}, conn.SetDeadline(time.Now().Add(limit))
}

func (l *line) say(q question, before ...byte) error {
	text, err := json.Marshal(q)
	if err != nil {
		return err
	}
	_, err = l.Write(append(append(before, text...), '\n'))
	return err
}

// hear reads the next reply that is no event.
func (l *line) hear() (json.RawMessage, error) {
	for {
		text, err := l.in.ReadBytes('\n')
		if err != nil {
			return nil, err
		}
		var r reply
		if err := json.Unmarshal(text, &r); err != nil {
			return nil, fmt.Errorf("the answer is no JSON: %w", err)
		}
		switch {
		case r.Error != nil:
			return nil, errors.New(r.Error.Desc)
		case r.Event == "":
			return r.Return, nil
		}
	}
}

func (l *line) ask(q question) (json.RawMessage, error) {
	if err := l.say(q); err != nil {
		return nil, err
	}
	return l.hear()
}

// askMonitor has a machine's QEMU do something.
func askMonitor(socket string, limit time.Duration, command string, arguments map[string]any) (json.RawMessage, error) {
	l, err := dial(socket, limit)
	if err != nil {
		return nil, err
	}
	defer func() { _ = l.Close() }()
	if _, err := l.hear(); err != nil { // its greeting
		return nil, err
	}
	if _, err := l.ask(question{Execute: "qmp_capabilities"}); err != nil {
		return nil, err
	}
	return l.ask(question{command, arguments})
}

// askAgent has the agent in a guest do something. What is still on the line of earlier questions is
// skipped: the agent marks where the answer to a number begins.
func askAgent(socket string, limit time.Duration, command string, arguments map[string]any) (json.RawMessage, error) {
	l, err := dial(socket, limit)
	if err != nil {
		return nil, err
	}
	defer func() { _ = l.Close() }()
	const mark = 0xff
	number := time.Now().UnixNano() >> 10 // of few enough digits for every reader of JSON
	if err := l.say(question{"guest-sync-delimited", map[string]any{"id": number}}, mark); err != nil {
		return nil, err
	}
	for {
		if _, err := l.in.ReadBytes(mark); err != nil {
			return nil, err
		}
		got, err := l.hear()
		if err != nil {
			return nil, err
		}
		if string(got) == strconv.FormatInt(number, 10) {
			return l.ask(question{command, arguments})
		}
	}
}
