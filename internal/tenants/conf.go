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
	fmt.Fprintf(&b, "system_account: %s\naccounts {\n  %s { users: [ { nkey: %s } ] }\n", SystemAccount, SystemAccount, d.System)
	for _, t := range d.Tenants {
		fmt.Fprintf(&b, "  %q {\n    jetstream {", t.Name)
		if t.Disk > 0 {
			fmt.Fprintf(&b, " max_file: %d,", t.Disk)
		}
		fmt.Fprintf(&b, " max_streams: %d }\n    users: [\n", maxStreams)
		for _, u := range t.Users {
			fmt.Fprintf(&b, "      { nkey: %s", u.Key)
			if publish, subscribe, all := u.Permissions(); !all {
				// Daemons answer whoever asks them how they are; an answer goes where it was asked for, once.
				answers := ""
				if u.Role != Agent && u.Role != Reader {
					answers = ", allow_responses: true"
				}
				fmt.Fprintf(&b, ", permissions: { publish: { allow: [%s] }, subscribe: { allow: [%s] }%s }", quoted(publish), quoted(subscribe), answers)
			}
			fmt.Fprintf(&b, " } # %s, %s\n", u.Name, u.Role)
		}
		b.WriteString("    ]\n  }\n")
	}
	b.WriteString("}\n")
	return b.Bytes()
}

func quoted(subjects []string) string {
	q := make([]string, len(subjects))
	for i, s := range subjects {
		q[i] = `"` + s + `"`
	}
	return strings.Join(q, ", ")
}
