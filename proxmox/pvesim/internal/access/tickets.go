package access

import (
	"crypto/hmac"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"
)

const (
	ticketLife   = 2 * time.Hour
	ticketFuture = 5 * time.Minute // that a clock may be ahead
)

// Ticket makes a ticket for a user.
func (a *Access) Ticket(name string, now time.Time) string {
	text := fmt.Sprintf("PVE:%s:%08X", name, now.Unix())
	return text + "::" + base64.StdEncoding.EncodeToString(a.Sign(text))
}

// VerifyTicket is the user that a ticket is for.
func (a *Access) VerifyTicket(ticket string, now time.Time) (name string, valid bool) {
	text, signature, signed := strings.Cut(ticket, "::")
	rest, isTicket := strings.CutPrefix(text, "PVE:")
	colon := strings.LastIndex(rest, ":")
	if !signed || !isTicket || colon < 0 {
		return "", false
	}
	name, at := rest[:colon], rest[colon+1:]
	if !a.signed(text, signature) || !fresh(at, now) {
		return "", false
	}
	return name, true
}

// signed reports whether a signature is the cluster's own.
func (a *Access) signed(text, signature string) bool {
	sum, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(signature, "="))
	return err == nil && hmac.Equal(sum, a.Sign(text))
}

// fresh reports whether a time in hexadecimal digits is not too long ago.
func fresh(hex string, now time.Time) bool {
	at, err := strconv.ParseInt(hex, 16, 64)
	age := now.Sub(time.Unix(at, 0))
	return err == nil && age >= -ticketFuture && age <= ticketLife
}

// Csrf makes the token that proves that a request with a ticket was meant.
func (a *Access) Csrf(name string, now time.Time) string {
	at := fmt.Sprintf("%08X", now.Unix())
	return at + ":" + strings.TrimRight(base64.StdEncoding.EncodeToString(a.Sign("csrf:"+at+":"+name)), "=")
}

// VerifyCSRF reports whether a token is one that CSRF made for a user, and still fresh.
func (a *Access) VerifyCSRF(name, token string, now time.Time) bool {
	at, signature, _ := strings.Cut(token, ":")
	return a.signed("csrf:"+at+":"+name, signature) && fresh(at, now)
}
