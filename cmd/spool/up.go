package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"spool/internal/embedded"
	"spool/internal/gc"
	"spool/internal/natsio"
	"spool/internal/persist"
	"spool/internal/service"
)

type upCmd struct {
	Data   string `type:"path" placeholder:"DIR" help:"Data directory (default: $XDG_DATA_HOME/spool or ~/.local/share/spool)."`
	Listen string `default:"127.0.0.1:4222" placeholder:"HOST:PORT" help:"Address of the embedded NATS server (${default})."`
	service.WebDoor
	service.Webhooks
	Sync        string           `default:"always" placeholder:"always|DURATION" help:"When written data is forced to disk: with every ack, or so often; a power cut loses at most that much (${default})."`
	EventsBytes size             `placeholder:"SIZE" help:"Size of EVENTS when it is created (default 4 GiB or a quarter of the disk limit)."`
	ItemsBytes  size             `placeholder:"SIZE" help:"Size of ITEMS when it is created."`
	ItemsAge    time.Duration    `placeholder:"DURATION" help:"Age at which ITEMS forgets, when it is created (default never)."`
	GCEvery     service.Schedule `name:"gc-every" default:"24h" placeholder:"WHEN" help:"Time between collections of garbage, a time of day in UTC (03:30), or a cron (30 3 * * 0); 0: none (${default})."`
	GCKeep      time.Duration    `name:"gc-quarantine" default:"24h" placeholder:"DURATION" help:"How long what was collected can be had back with spool gc undelete (${default})."`
	RetainShare float64          `name:"retention-share" default:"0.3" most:"1" help:"Most that retention may remove at a time of all sessions; ten may always go (${default})."`
	ScrubEvery  time.Duration    `name:"scrub-every" placeholder:"DURATION" help:"Read all that is stored against its digests so often; default: never."`
	ScrubRate   string           `name:"scrub-rate" default:"20MiB/s" placeholder:"BYTES/s" help:"With --scrub-every: bytes that are read in a second at most (${default})."`
	service.Artifacts
	service.Secrets
	service.Limits
	service.Users
	Auth     string `type:"existingdir" placeholder:"DIR" help:"Directory of spool auth: who is let in to the embedded server; needed to listen beyond loopback."`
	Tenant   string `placeholder:"NAME" help:"With --auth: the tenant that this process serves (default: the only one)."`
	NATSCert string `name:"tls-cert" type:"existingfile" placeholder:"FILE" help:"Certificate of the embedded server: clients then must use TLS."`
	NATSKey  string `name:"tls-key" type:"existingfile" placeholder:"FILE" help:"Its key."`
	ClientCA string `name:"tls-client-ca" type:"existingfile" placeholder:"FILE" help:"CA bundle: clients must show a certificate that it signed."`
	Cipher   string `default:"chacha" enum:"chacha,aes" help:"With --key-file: ${enum} (${default})."`
	KeyFile  string `type:"existingfile" placeholder:"FILE" help:"File with the secret that what is stored is encrypted with. The prompt history is then not kept."`
}

func (c *upCmd) Run(a *app) error {
	cfg, err := c.config(a)
	if err != nil {
		return err
	}
	service.IgnoreHangup()
	cfg.Ready = func(up *service.Up) { c.hello(a, up) }
	if err := service.RunUp(a.ctx, cfg); err != nil {
		return err
	}
	fmt.Fprintln(a.err, "stopped; everything that was acknowledged is stored")
	return nil
}

func (c *upCmd) config(a *app) (service.UpConfig, error) {
	sync, err := parseSync(c.Sync)
	if err != nil {
		return service.UpConfig{}, err
	}
	large, err := c.Thresholds()
	if err != nil {
		return service.UpConfig{}, err
	}
	cuts, err := c.Cuts()
	if err != nil {
		return service.UpConfig{}, err
	}
	api, err := c.API(nil)
	if err != nil {
		return service.UpConfig{}, err
	}
	if c.Data != "" && a.nats.Given() {
		return service.UpConfig{}, service.UsageError{Err: errors.New("--data names a directory of this machine, and --nats, --context, " +
			"NATS_URL or NATS_CONTEXT a NATS system elsewhere: give one of them (env -u NATS_URL spool up --data " + c.Data + ")")}
	}
	if a.flags["listen"] && a.nats.Given() {
		return service.UpConfig{}, service.UsageError{Err: errors.New("--listen is where a NATS server of its own would be, and --nats, --context, " +
			"NATS_URL or NATS_CONTEXT names one elsewhere: give one of them (env -u NATS_URL spool up --listen " + c.Listen + ")")}
	}
	if c.Data == "" && !a.nats.Given() {
		if c.Data, err = service.DataDir(); err != nil {
			return service.UpConfig{}, err
		}
	}
	collect := service.GC{Config: gc.Safe(), When: c.GCEvery, RetainShare: c.RetainShare}
	collect.Quarantine = c.GCKeep
	if collect.Retain, err = service.OpenPolicies(a.config); err != nil {
		return service.UpConfig{}, err
	}
	rate, err := parseRate(c.ScrubRate)
	if err != nil {
		return service.UpConfig{}, err
	}
	secrets, err := c.Secrets.Open()
	if err != nil {
		return service.UpConfig{}, err
	}
	guard, err := c.guard(a)
	if err != nil {
		return service.UpConfig{}, err
	}
	if err := (embedded.Config{Listen: c.Listen, Auth: guard.Auth}).CheckListen(); err != nil && !a.nats.Given() {
		return service.UpConfig{}, service.UsageError{Err: err}
	}
	if c.WebhookKey == "" && c.Data != "" {
		c.WebhookKey = filepath.Join(c.Data, "webhook.key")
	}
	var prompts func(*natsio.Conn) (string, error)
	if c.KeyFile == "" { // it is a file of its own, which nothing encrypts
		prompts = func(conn *natsio.Conn) (string, error) {
			if a.nats.Given() {
				return a.historyFile(conn)
			}
			return service.HistoryFile(c.Data), nil
		}
	}
	return service.UpConfig{
		ScrubEvery: c.ScrubEvery, ScrubRate: rate,
		Webhooks: c.Webhooks, GC: collect, History: prompts, NATS: a.nats, Data: c.Data, Listen: c.Listen, HTTP: c.HTTP, API: api, Sync: sync,
		Guard: guard, Log: a.log,
		Limits: natsio.Limits{EventsBytes: int64(c.EventsBytes), ItemsBytes: int64(c.ItemsBytes), ItemsAge: c.ItemsAge},
		Persist: service.PersisterConfig{Secrets: secrets, Config: persist.Config{
			Lane: -1, Artifacts: large, Cuts: cuts, Limits: c.With(c.Limits.Limits()),
		}},
	}, nil
}

// guard is what the flags say of the embedded server's doors and files.
func (c *upCmd) guard(a *app) (g service.Guard, err error) {
	g = service.Guard{TLS: embedded.TLS{Cert: c.NATSCert, Key: c.NATSKey, CA: c.ClientCA}, KeyFile: c.KeyFile, Cipher: c.Cipher}
	switch outside := a.nats.Given(); {
	case outside && (c.Auth != "" || c.KeyFile != "" || g.TLS != embedded.TLS{}):
		return g, service.UsageError{Err: errors.New("--auth, --tls-… and --key-file are for the embedded server: " +
			"the NATS system that is named has its own")}
	case c.Auth == "" && c.Tenant != "":
		return g, service.UsageError{Err: errors.New("--tenant needs --auth DIR")}
	case c.Auth == "":
		return g, nil
	}
	dir, err := openAuth(c.Auth)
	if err != nil {
		return g, err
	}
	t, err := dir.only(c.Tenant)
	if err != nil {
		return g, err
	}
	u, err := t.User(adminUser)
	if err != nil {
		return g, err
	}
	g.Auth, g.NKey, g.Inbox = dir.conf(), dir.seed(t.Name, u.Name), u.Inbox()
	return g, nil
}

func parseSync(s string) (time.Duration, error) {
	if s == "always" {
		return 0, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		return 0, service.UsageError{Err: fmt.Errorf("--sync %q: use always, or a duration like 1s", s)}
	}
	return d, nil
}

func (c *upCmd) hello(a *app, up *service.Up) {
	where := c.Data
	if up.Server == nil {
		where = "(on the NATS system)"
	}
	fmt.Fprintf(a.err, "Spool is up.\n  data  %s\n  NATS  %s\n  HTTP  %s\n", where, up.NATS, up.HTTP)
	if c.Sync != "always" && up.Server != nil {
		fmt.Fprintf(a.err, "  sync  every %s: a power cut may lose that much of what was acknowledged\n", c.Sync)
	}
	if up.Server != nil && c.Auth != "" && c.NATSCert == "" && !strings.HasPrefix(up.NATS, "nats://127.") {
		fmt.Fprintln(a.err, "  note  NATS is not encrypted on its way: --tls-cert and --tls-key change that")
	}
	if up.Server != nil && c.KeyFile != "" {
		fmt.Fprintf(a.err, "  disk  encrypted (%s); the prompt history is not kept\n", c.Cipher)
	}
	fmt.Fprintf(a.err, "Publish with: spool import PATH, spool publish --session S --dialect D\nFollow with:  spool tail\n"+
		"Stop with:    Ctrl-C or kill %d\n", os.Getpid())
}
