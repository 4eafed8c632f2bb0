package natsadmin

import (
	"fmt"

	"github.com/nats-io/nkeys"
)

// NewKey makes a user's key: the seed, which is its secret and proves that it is who it says, and the public half, which a
// server is told.
func NewKey() (seed []byte, public string, err error) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		return nil, "", fmt.Errorf("make a key: %w", err)
	}
	defer pair.Wipe()
	kept, err := pair.Seed()
	if err != nil {
		return nil, "", fmt.Errorf("make a key: %w", err)
	}
	seed = append(seed, kept...) // Wipe overwrites the pair's own
	public, err = pair.PublicKey()
	return seed, public, err
}
