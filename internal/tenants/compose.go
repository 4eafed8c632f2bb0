package tenants

import "strings"

// ComposeAccounts are the accounts of compose.yaml and compose.cluster.yaml, as those files have to write them: one tenant, whose name
// and users are all called after what they are, with passwords from the environment.
func ComposeAccounts() string {
	d := Directory{Tenants: []Tenant{{Name: "spool", Users: []User{
		{Name: "spool", Role: Admin, Password: "@SPOOL_NATS_PASSWORD@"},
		{Name: "agents", Role: Agent, Password: "@SPOOL_AGENT_PASSWORD@", Sessions: []string{allSessions}},
		{Name: "readers", Role: Reader, Password: "@SPOOL_READER_PASSWORD@"},
	}}}}
	_, text, _ := strings.Cut(string(d.Conf()), "\n") // without the line that says who wrote it
	text = strings.ReplaceAll(text, "$", "$$")        // compose replaces what begins with one
	for _, name := range []string{"SPOOL_NATS_PASSWORD", "SPOOL_AGENT_PASSWORD", "SPOOL_READER_PASSWORD"} {
		text = strings.ReplaceAll(text, "@"+name+"@", "${"+name+":?set "+name+", see the top of compose.yaml}")
	}
	return text
}
