package tenants_test

import (
	"context"
	"strings"
	"testing"

	"spool/internal/must"
	"spool/internal/tenants"
	"spool/pkg/client"
)

// Whoever reads in an account of its own has the items of its tenant as they are published, and none of another tenant's.
func TestLiveItemsOfATenant(t *testing.T) {
	s := newSite(t)
	s.publish("acme", tenants.Agent, "mine", "before", 1)
	ctx, cancel := context.WithCancel(t.Context())
	roles, ended := []tenants.Role{tenants.Reader, tenants.Ingest}, make(chan error, 2)
	got := make(map[tenants.Role]chan client.Item, len(roles))
	for _, role := range roles {
		c, stands := client.New(s.dial("acme", role, nil)), make(chan struct{})
		items := make(chan client.Item, 10)
		got[role] = items
		go func() {
			for item, err := range c.Session("mine").Live(ctx, func() { close(stands) }) {
				if err != nil {
					ended <- err
					return
				}
				items <- item
			}
			ended <- nil
		}()
		select {
		case <-stands:
		case err := <-ended:
			t.Fatalf("live as %s: %v", role, err)
		}
	}
	s.publish("brook", tenants.Agent, "mine", "of another tenant", 1)
	s.publish("acme", tenants.Agent, "mine", "behind", 2)
	for _, role := range roles {
		if item := must.Receive(t, got[role], "an item for %s", role); !strings.Contains(string(item.Raw), "behind") || item.Seq != 0 {
			t.Errorf("%s has %s of sequence %d, want the second one, as it was published", role, item.Raw, item.Seq)
		}
	}
	cancel()
	for range roles {
		must.Is(t, <-ended, nil, "live")
	}
}
