package service

import (
	"cmp"
	"context"
	"flag"
	"log/slog"
	"os"
	"time"

	"spool/internal/natsio"
	"spool/pkg/events"
)

// NATS is how every command reaches a NATS system: flags over environment over file over the context, with the names that the nats
// CLI has. The tags are kong's; the daemons use Flags.
type NATS struct {
	Server   string        `name:"nats" short:"s" env:"NATS_URL" placeholder:"URL" help:"NATS server URL (default nats://127.0.0.1:4222)."`
	Context  string        `env:"NATS_CONTEXT" placeholder:"NAME" help:"Context saved with the nats CLI."`
	Creds    string        `env:"NATS_CREDS" placeholder:"FILE" help:"Credentials file."`
	NKey     string        `name:"nkey" env:"NATS_NKEY" placeholder:"FILE" help:"NKey seed file."`
	User     string        `env:"NATS_USER" help:"User name."`
	Password string        `env:"NATS_PASSWORD" help:"Password."`
	Token    string        `env:"NATS_TOKEN" help:"Token."`
	TLSCert  string        `name:"tlscert" env:"NATS_CERT" placeholder:"FILE" help:"Client certificate."`
	TLSKey   string        `name:"tlskey" env:"NATS_KEY" placeholder:"FILE" help:"Client key."`
	TLSCA    string        `name:"tlsca" env:"NATS_CA" placeholder:"FILE" help:"CA bundle."`
	Inbox    string        `name:"inbox-prefix" env:"NATS_INBOX_PREFIX" placeholder:"SUBJECT" help:"Prefix of the subjects where answers come."`
	Scope    string        `env:"SPOOL_SCOPE" placeholder:"SESSIONS" help:"Sessions that events may name; +: all."`
	Domain   string        `name:"js-domain" placeholder:"NAME" help:"JetStream domain."`
	Timeout  time.Duration `env:"NATS_TIMEOUT" default:"5s" help:"Time for one request."`
}

const timeoutEnv = "NATS_TIMEOUT"

// natsFlag is a flag of text.
type natsFlag struct {
	p                *string
	name, env, usage string
}

func (n *NATS) flags() []natsFlag {
	return []natsFlag{
		{&n.Server, "nats", "NATS_URL", "NATS server `URL` (default nats://127.0.0.1:4222)"},
		{&n.Context, "context", "NATS_CONTEXT", "`name` of a context saved with the nats CLI"},
		{&n.Creds, "creds", "NATS_CREDS", "credentials `file`"},
		{&n.NKey, "nkey", "NATS_NKEY", "nkey seed `file`"},
		{&n.User, "user", "NATS_USER", "user `name`"},
		{&n.Password, "password", "NATS_PASSWORD", "`password`"},
		{&n.Token, "token", "NATS_TOKEN", "`token`"},
		{&n.TLSCert, "tlscert", "NATS_CERT", "client certificate `file`"},
		{&n.TLSKey, "tlskey", "NATS_KEY", "client key `file`"},
		{&n.TLSCA, "tlsca", "NATS_CA", "CA bundle `file`"},
		{&n.Inbox, "inbox-prefix", "NATS_INBOX_PREFIX", "prefix of the `subjects` where answers come"},
		{&n.Scope, "scope", "SPOOL_SCOPE", "`sessions` that events may name; +: all"},
		{&n.Domain, "js-domain", "", "JetStream domain `name`"},
	}
}

// Flags registers the flags on a standard flag set; the environment gives the defaults.
func (n *NATS) Flags(fs *flag.FlagSet) {
	for _, f := range n.flags() {
		fs.StringVar(f.p, f.name, os.Getenv(f.env), f.usage+envNote(f.env))
	}
	timeout, err := time.ParseDuration(cmp.Or(os.Getenv(timeoutEnv), "5s"))
	if err != nil {
		timeout = 5 * time.Second
	}
	fs.DurationVar(&n.Timeout, "timeout", timeout, "time for one request ["+timeoutEnv+"]")
}

func envNote(env string) string {
	if env == "" {
		return ""
	}
	return " [" + env + "]"
}

// Given reports whether an outside NATS system is named.
func (n *NATS) Given() bool { return n.Server != "" || n.Context != "" }

// Dial connects. name is what the server shows of the connection.
func (n *NATS) Dial(ctx context.Context, name string, log *slog.Logger) (*natsio.Conn, error) {
	return natsio.Dial(ctx, natsio.Config{
		URL: n.Server, Context: n.Context, Creds: n.Creds, NKey: n.NKey, User: n.User, Password: n.Password, Token: n.Token,
		TLSCert: n.TLSCert, TLSKey: n.TLSKey, TLSCA: n.TLSCA, Inbox: n.Inbox, Scope: events.Scope(n.Scope), Domain: n.Domain,
		Timeout: n.Timeout, Name: name, Logger: log,
	})
}
