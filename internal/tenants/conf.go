package tenants

import (
	"bytes"
	"fmt"
	"strings"
)

// maxStreams is what a tenant may have: Spool's nine, and room for those that a later version adds.
const maxStreams = 16

// Conf is the directory as a nats-server configuration: the accounts and nothing else, to be included in the server's own
// file, or given to spool up.
func (d *Directory) Conf() []byte {
	var b bytes.Buffer
	b.WriteString("# Written by spool auth: it is written anew by every change. Public keys only.\n")
	if d.System != "" {
		fmt.Fprintf(&b, "system_account: %s\n", SystemAccount)
	}
	b.WriteString("accounts {\n")
	if d.System != "" {
		fmt.Fprintf(&b, "  %s { users: [ { nkey: %s } ] }\n", SystemAccount, d.System)
	}
	for i := range d.Tenants {
		d.Tenants[i].write(&b)
	}
	b.WriteString("}\n")
	return b.Bytes()
}

// Account is the NATS account that a user of the tenant lives in.
func (t *Tenant) Account(u User) string {
	if u.Role.Apart() {
		return t.Name + "/" + u.Name // no tenant is called so
	}
	return t.Name
}

// write is the tenant's account, with the users who run the system, and one account for each user who lives apart.
func (t *Tenant) write(b *bytes.Buffer) {
	fmt.Fprintf(b, "  %q {\n    jetstream {", t.Name)
	if t.Disk > 0 {
		fmt.Fprintf(b, " max_file: %d,", t.Disk)
	}
	fmt.Fprintf(b, " max_streams: %d }\n    users: [\n", maxStreams)
	for _, u := range t.Users {
		if !u.Role.Apart() {
			fmt.Fprintf(b, "      %s\n", u.entry())
		}
	}
	b.WriteString("    ]\n")
	t.writeExports(b)
	b.WriteString("  }\n")
	for _, u := range t.Users {
		if u.Role.Apart() {
			fmt.Fprintf(b, "  %q {\n    users: [ %s ]\n    imports: [\n", t.Account(u), u.login())
			for _, p := range u.passages() {
				fmt.Fprintf(b, "      %s\n", p.into(t.Name))
			}
			b.WriteString("    ]\n  }\n")
		}
	}
}

// writeExports opens the doors of a role to the accounts of its users, and to no other.
func (t *Tenant) writeExports(b *bytes.Buffer) {
	exports := ""
	for _, role := range Roles {
		var accounts []string
		for _, u := range t.Users {
			if u.Role == role && role.Apart() {
				accounts = append(accounts, t.Account(u))
			}
		}
		if len(accounts) == 0 {
			continue
		}
		for _, p := range doors(role) {
			exports += "      " + p.outOf(accounts) + "\n"
		}
	}
	if exports != "" {
		fmt.Fprintf(b, "    exports: [\n%s    ]\n", exports)
	}
}

// outOf is the passage in the account that it leads into. Traces and latencies are of no passage.
func (p passage) outOf(accounts []string) string {
	kind, answers := "service", ""
	switch {
	case p.stream:
		kind = "stream"
	case p.many != "":
		answers = fmt.Sprintf(", response_type: stream, response_threshold: %q", p.many)
	}
	return fmt.Sprintf("{ %s: %q%s, accounts: [%s] }", kind, p.subject, answers, quoted(accounts))
}

// into is the passage in the account of its user.
func (p passage) into(tenant string) string {
	kind, as := "service", ""
	if p.stream {
		kind = "stream"
	}
	if p.as != "" {
		as = fmt.Sprintf(", to: %q", p.as)
	}
	return fmt.Sprintf("{ %s: { account: %q, subject: %q }%s }", kind, tenant, p.subject, as)
}

// entry is a user with its name behind it.
func (u User) entry() string { return u.login() + " # " + u.Name + ", " + string(u.Role) }

// login is a user in the configuration: who it is, and what it may.
func (u User) login() string {
	who := "nkey: " + u.Key
	if u.Password != "" {
		who = fmt.Sprintf("user: %s, password: %q", u.Name, u.Password)
	}
	publish, subscribe, all := u.Permissions()
	if all {
		return "{ " + who + " }"
	}
	deny := ""
	if list := u.denied(); list != nil {
		deny = fmt.Sprintf(", deny: [%s]", quoted(list))
	}
	// Daemons answer whoever asks them how they are; an answer goes where it was asked for, once.
	answers := ""
	if !u.Role.Apart() {
		answers = ", allow_responses: true"
	}
	return fmt.Sprintf("{ %s, permissions: { publish: { allow: [%s]%s }, subscribe: { allow: [%s] }%s } }",
		who, quoted(publish), deny, quoted(subscribe), answers)
}

func quoted(subjects []string) string {
	q := make([]string, len(subjects))
	for i, s := range subjects {
		q[i] = `"` + s + `"`
	}
	return strings.Join(q, ", ")
}
