package tenants_test

import (
	"strings"
	"testing"

	"go.uber.org/goleak"

	"spool/internal/must"
	"spool/internal/tenants"
	"spool/pkg/events"
)

// The server goes on asking for a while for a stream that brook wants to take from acme.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.(*stream).trySetupSourceConsumer.func3"),
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.(*stream).tryDeleteSourcingConsumer.func1"))
}

// TestLongScope: sessions whose names are too long together for a subject may not name each other.
func TestLongScope(t *testing.T) {
	long := strings.Repeat("s", events.MaxToken-1)
	for _, n := range []int{3, 5} {
		d, u := tenants.Directory{}, tenants.User{Name: "a", Role: tenants.Agent}
		for i := range n {
			u.Sessions = append(u.Sessions, long+string(rune('a'+i)))
		}
		tenant := tenants.Tenant{Name: "acme"}
		must.Do(t, tenant.Add(u))
		d.Tenants = append(d.Tenants, tenant)
		want := strings.Join(u.Sessions, ",")
		if n == 5 {
			want = u.Sessions[0]
		}
		subject := "spool.v1.event." + u.Sessions[0] + ".*.control@" + want + `@a"`
		if conf := string(d.Conf()); !strings.Contains(conf, subject) {
			t.Errorf("%d sessions: no import of %s in\n%s", n, subject, conf)
		}
	}
}

// TestRefusals: names that are none, names that are taken, and lists of sessions where there must be none.
func TestRefusals(t *testing.T) {
	var d tenants.Directory
	must.Do(t, d.AddTenant(tenants.Tenant{Name: "acme"}))
	for _, bad := range []tenants.Tenant{{Name: "acme"}, {Name: "SYS"}, {Name: ""}, {Name: "a.b"},
		{Name: "$G"}, {Name: `x" {`}, {Name: "b", Disk: -1}, {Name: "b", Disk: tenants.LeastDisk - 1}} {
		if err := d.AddTenant(bad); err == nil {
			t.Errorf("AddTenant(%+v) = nil, want a refusal", bad)
		}
	}
	acme := must.Get(d.Tenant("acme"))(t)
	must.Do(t, acme.Add(tenants.User{Name: "a", Role: tenants.Agent, Sessions: []string{"s1", "s2"}}))
	for _, bad := range []tenants.User{
		{Name: "a", Role: tenants.Reader}, {Name: "b", Role: "king"}, {Name: "b.>", Role: tenants.Reader}, {Name: "b", Role: tenants.Agent},
		{Name: "b", Role: tenants.Reader, Sessions: []string{"s"}}, {Name: "b", Role: tenants.Agent, Sessions: []string{"*"}},
		{Name: "b", Role: tenants.Agent, Sessions: []string{"s", "a.>"}}, {Name: "b", Role: tenants.Agent, Sessions: []string{`s", ">`}},
	} {
		if err := acme.Add(bad); err == nil {
			t.Errorf("Add(%+v) = nil, want a refusal", bad)
		}
	}
	if err := acme.Remove("a"); err != nil || acme.Remove("a") == nil {
		t.Errorf("Remove = %v, and a second time nil, want nil and a refusal", err)
	}
}
