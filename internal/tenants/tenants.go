// Package tenants says who may do what on the NATS side: tenants, which are accounts, and their users, each with a role. What it
// knows is written as a nats-server configuration (conf.go); keys stay with their users, the configuration has public halves only.
//
// Between tenants the server's accounts stand: nothing is imported or exported, so no subject, stream or service of one exists
// in another (DESIGN 11). Inside a tenant the roles stand (roles.go): who runs the system is in the tenant's account, with
// permissions; each agent and reader is in an account of its own, from which a few subjects lead into the tenant's.
package tenants

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"spool/pkg/events"
)

// Directory is every tenant of a NATS system.
type Directory struct {
	Version int      `json:"version"`       // 1
	URL     string   `json:"url,omitempty"` // where clients connect; what their settings name
	System  string   `json:"system"`        // public key of the server's own account: monitoring, no tenant's data
	Tenants []Tenant `json:"tenants"`
}

// Version is that of Directory.
const Version = 1

// Tenant is an account.
type Tenant struct {
	Name  string `json:"name"`
	Disk  int64  `json:"disk,omitempty"` // bytes of all its streams, LeastDisk or more; 0 = any
	Users []User `json:"users"`
}

// User is a key with a role.
type User struct {
	Name     string   `json:"name"`
	Role     Role     `json:"role"`
	Key      string   `json:"key"`                // public
	Sessions []string `json:"sessions,omitempty"` // of an agent: whole names
	Password string   `json:"-"`                  // in the place of a key, where a file says it for all users (compose.yaml)
}

// ErrTenants is wrapped by every refusal of a change.
var ErrTenants = errors.New("tenants")

// SystemAccount is the server's own account.
const SystemAccount = "SYS"

// AddTenant adds an account without users.
func (d *Directory) AddTenant(t Tenant) error {
	if err := events.CheckToken("tenant", t.Name); err != nil {
		return err
	}
	if t.Name == SystemAccount {
		return fmt.Errorf("%w: %s is the server's own account: choose another name", ErrTenants, t.Name)
	}
	if err := CheckDisk(t.Disk); err != nil {
		return err
	}
	if _, err := d.Tenant(t.Name); err == nil {
		return fmt.Errorf("%w: there is a tenant %s: choose another name", ErrTenants, t.Name)
	}
	d.Tenants = append(d.Tenants, t)
	return nil
}

// LeastDisk is the least disk limit, in bytes: EVENTS and ITEMS have room for 64 MiB each, and what they become is as
// large.
const LeastDisk = 256 << 20

// CheckDisk refuses a limit that a tenant's streams do not fit into.
func CheckDisk(limit int64) error {
	if limit != 0 && limit < LeastDisk {
		return fmt.Errorf("%w: a disk limit of %d bytes: the streams of a tenant need %d (256MiB) or more; 0 is no limit",
			ErrTenants, limit, LeastDisk)
	}
	return nil
}

// Tenant finds one; the pointer is into d.
func (d *Directory) Tenant(name string) (*Tenant, error) {
	for i := range d.Tenants {
		if d.Tenants[i].Name == name {
			return &d.Tenants[i], nil
		}
	}
	return nil, fmt.Errorf("%w: there is no tenant %q: spool auth ls lists them", ErrTenants, name)
}

// Add gives a tenant a user.
func (t *Tenant) Add(u User) error {
	if err := events.CheckToken("user", u.Name); err != nil {
		return err
	}
	if !slices.Contains(Roles, u.Role) {
		return fmt.Errorf("%w: role %q: use one of %s", ErrTenants, u.Role, roleNames())
	}
	if (u.Role == Agent) != (len(u.Sessions) > 0) {
		return fmt.Errorf("%w: an agent has a list of sessions, and nobody else: a NATS permission is for whole names; "+
			"for all that begin alike use an HTTP token", ErrTenants)
	}
	for _, s := range u.Sessions {
		if err := events.CheckToken("session", s); err != nil {
			return err
		}
	}
	if _, err := t.User(u.Name); err == nil {
		return fmt.Errorf("%w: %s has a user %s: remove it first, or choose another name", ErrTenants, t.Name, u.Name)
	}
	t.Users = append(t.Users, u)
	return nil
}

// User finds a user.
func (t *Tenant) User(name string) (User, error) {
	i := slices.IndexFunc(t.Users, func(u User) bool { return u.Name == name })
	if i < 0 {
		return User{}, fmt.Errorf("%w: %s has no user %q: spool auth ls lists them", ErrTenants, t.Name, name)
	}
	return t.Users[i], nil
}

// Remove takes a user away: once the server has read its configuration again, its key opens nothing.
func (t *Tenant) Remove(name string) error {
	if _, err := t.User(name); err != nil {
		return err
	}
	t.Users = slices.DeleteFunc(t.Users, func(u User) bool { return u.Name == name })
	return nil
}

// Inbox is the prefix of the subjects where a user gets its answers. It has one of its own, because whoever may subscribe to
// everybody's reads what everybody asked for.
func (u User) Inbox() string { return "_INBOX." + u.Name }

func roleNames() string {
	names := make([]string, len(Roles))
	for i, r := range Roles {
		names[i] = string(r)
	}
	return strings.Join(names, ", ")
}
