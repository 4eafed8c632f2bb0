package natsio

import (
	"cmp"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/nats-io/nats.go"

	"spool/pkg/events"
)

// userSecret is what nobody but this connection's user can work out, and always the same: its signature of a text, or a hash of its
// password. Nil for a user without either.
func userSecret(nc *nats.Conn) ([]byte, error) {
	const text = "spool: names of durable subscriptions"
	if sign := nc.Opts.SignatureCB; sign != nil {
		signature, err := sign([]byte(text)) // Ed25519: of one text there is one
		if err != nil {
			return nil, fmt.Errorf("sign with the user's key: %w", err)
		}
		return mac(signature, text), nil
	}
	if word := cmp.Or(nc.Opts.Password, nc.Opts.Token); word != "" {
		return mac([]byte(word), text), nil
	}
	return nil, nil
}

// readerTag is the secret part of the name of a durable subscription; "" without a user.
func (c *Conn) readerTag(name string) string {
	if c.secret == nil {
		return ""
	}
	return hex.EncodeToString(mac(c.secret, name))[:events.ReaderTag]
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

// newBatch names an atomic batch. The name is stored with each of its messages, so it says nothing of the names that this process gives
// to consumers and answer subjects: those count on from one another.
func newBatch() string { return rand.Text() }
