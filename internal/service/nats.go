package service

import (
	"context"
	"log/slog"
	"time"

	"spool/internal/natsio"
	"spool/pkg/events"
)

// NATS is how every command reaches a NATS system: flags over environment over file over the context, with the names that the nats
// CLI has.
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

// Given reports whether an outside NATS system is named.
func (n *NATS) Given() bool { return n.Server != "" || n.Context != "" }

// Dial connects. name is what the server shows of the connection.
func (n *NATS) Dial(ctx context.Context, name string, log *slog.Logger) (*natsio.Conn, error) {
	cfg, err := n.Config(name, log)
	if err != nil {
		return nil, err
	}
	return natsio.Dial(ctx, cfg)
}

// Config is what connects so.
func (n *NATS) Config(name string, log *slog.Logger) (natsio.Config, error) {
	if err := natsio.CheckURL(n.Server); err != nil {
		return natsio.Config{}, UsageError{Err: err}
	}
	return natsio.Config{
		URL: n.Server, Context: n.Context, Creds: n.Creds, NKey: n.NKey, User: n.User, Password: n.Password, Token: n.Token,
		TLSCert: n.TLSCert, TLSKey: n.TLSKey, TLSCA: n.TLSCA, Inbox: n.Inbox, Scope: events.Scope(n.Scope), Domain: n.Domain,
		Timeout: n.Timeout, Name: name, Logger: log,
	}, nil
}
