package service

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"spool/internal/access"
	"spool/internal/dstreams"
	"spool/internal/gc"
	"spool/internal/httpapi"
	"spool/internal/ingest"
	"spool/internal/natsio"
	"spool/internal/retention"
	"spool/internal/subscriptions"
	"spool/pkg/client"
	"spool/pkg/dialect"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// Flags are the command line of a daemon. What a command of spool is told too is described once, by the tags that kong
// reads from the command's fields; Take registers the same fields here.
type Flags struct {
	*flag.FlagSet
	NATS    NATS
	role    string
	err     io.Writer // of the log
	config  string
	level   string
	format  string
	version bool
	common  map[string]bool // flags that every program has
	ranges  map[string]reflect.StructTag
	env     map[string]string // the environment variables of flags
}

// NewFlags registers what every daemon takes. name is what it was called by; the help goes to out, and the log to errw.
func NewFlags(role, name string, out, errw io.Writer) *Flags {
	f := &Flags{
		FlagSet: flag.NewFlagSet(name, flag.ContinueOnError), role: role, err: errw, common: map[string]bool{}, env: map[string]string{},
		ranges: map[string]reflect.StructTag{},
	}
	f.SetOutput(out)
	f.Take(&f.NATS)
	f.StringVar(&f.level, "log-level", "info", "least `level` that is logged: debug, info, warn, error")
	f.StringVar(&f.format, "log-format", "text", "`form` of the log: text, json")
	f.VisitAll(func(one *flag.Flag) { f.common[one.Name] = true })
	f.StringVar(&f.config, "config", os.Getenv(ConfigEnv),
		"configuration `file` (default: spool/config.toml where XDG keeps configuration) ["+ConfigEnv+"]")
	f.BoolVar(&f.version, "version", false, "say which version this is")
	return f
}

// hump is where a word of a field's name begins, for kong and here.
var hump = regexp.MustCompile(`([a-z])([A-Z])`)

// Take registers the fields of a struct, and of those that it embeds. Their tags are kong's. when says of each that it
// counts only then.
func (f *Flags) Take(to any, when ...string) {
	v := reflect.ValueOf(to).Elem()
	for _, field := range reflect.VisibleFields(v.Type()) {
		if field.Anonymous {
			continue
		}
		name, tag := field.Tag.Get("name"), field.Tag
		name = cmp.Or(name, strings.ToLower(hump.ReplaceAllString(field.Name, "$1-$2")))
		usage := strings.NewReplacer(" (${default})", "", "${enum}", tag.Get("enum")).Replace(tag.Get("help"))
		if env := tag.Get("env"); env != "" {
			usage, f.env[name] = usage+" ["+env+"]", env
		}
		f.ranges[name] = tag
		f.register(v.FieldByIndex(field.Index).Addr().Interface(), name, strings.Join(when, "")+usage)
		if text, ok := tag.Lookup("default"); ok {
			one := f.Lookup(name)
			if err := one.Value.Set(text); err != nil {
				panic(fmt.Sprintf("-%s: %v", name, err)) // a mistake in the tag
			}
			one.DefValue = one.Value.String()
		}
	}
}

func (f *Flags) register(field any, name, usage string) {
	switch p := field.(type) {
	case *string:
		f.StringVar(p, name, "", usage)
	case *bool:
		f.BoolVar(p, name, false, usage)
	case *int:
		f.IntVar(p, name, 0, usage)
	case *int64:
		f.Int64Var(p, name, 0, usage)
	case *uint64:
		f.Uint64Var(p, name, 0, usage)
	case *float64:
		f.Float64Var(p, name, 0, usage)
	case *time.Duration:
		f.DurationVar(p, name, 0, usage)
	case *[]string:
		f.Func(name, usage+" Several are joined by commas.", func(s string) error {
			*p = append(*p, strings.Split(s, ",")...)
			return nil
		})
	default:
		panic(fmt.Sprintf("-%s: no flag is a %T", name, p))
	}
}

// Parse reads a daemon's command line, then the environment, then the configuration file for the flags that neither of them
// sets: the table of the daemon's role over the keys at the top, which are flags that every program has. It makes the log.
// Behind the flags nothing may stand, or may.
func (f *Flags) Parse(args []string, may ...string) (*slog.Logger, error) {
	if err := f.parseArgs(args); err != nil {
		return nil, UsageError{Err: err}
	}
	if f.version {
		fmt.Fprintln(f.Output(), f.Name(), Build())
		return nil, flag.ErrHelp
	}
	if f.NArg() > 0 && !slices.Equal(f.Args(), may) {
		return nil, UsageError{Err: fmt.Errorf("unexpected argument %s behind the flags", f.Arg(0))}
	}
	c, err := OpenConfig(f.config)
	if err != nil {
		return nil, err
	}
	given := map[string]bool{}
	f.Visit(func(one *flag.Flag) { given[one.Name] = true })
	for name, env := range f.env {
		if given[name] || !InEnv(env) {
			continue
		}
		given[name] = true
		if err := f.set(name, os.Getenv(env)); err != nil {
			return nil, UsageError{Err: fmt.Errorf("%s %q: %w", env, os.Getenv(env), err)}
		}
	}
	for _, section := range []string{"", f.role} {
		if err := f.takeSection(c, section, given); err != nil {
			return nil, err
		}
	}
	return Log(f.err, f.format, f.level)
}

// parseArgs leaves it to Exit to say what is wrong: the package flag would say it, too, and all flags.
func (f *Flags) parseArgs(args []string) error {
	help := f.Output()
	f.SetOutput(io.Discard)
	err := f.FlagSet.Parse(args)
	f.SetOutput(help)
	if errors.Is(err, flag.ErrHelp) {
		f.Usage()
		return err
	}
	if err == nil {
		f.Visit(func(one *flag.Flag) {
			if e := f.inRange(one); e != nil && err == nil {
				err = fmt.Errorf("-%s %s: %w", one.Name, quotedText(one.Value), e)
			}
		})
		return err
	}
	said := misparse.FindStringSubmatch(err.Error())
	switch {
	case said == nil, said[4] != "" && f.Lookup(said[4][1:]) == nil:
		return err
	case said[1] != "":
		return fmt.Errorf("there is no flag %s", said[1])
	case said[2] != "":
		return fmt.Errorf("%s needs a value", said[2])
	}
	return fmt.Errorf("%s %s: %w", said[4], said[3], f.takes(said[4][1:], said[3], errors.New(said[5])))
}

// misparse is what the package flag says of a command line: all that it gives. TestParseSaysWhatAFlagTakes fails if it changes its words.
var misparse = regexp.MustCompile(`(?s)^(?:flag provided but not defined: (.*)|flag needs an argument: (.*)|` +
	`invalid (?:boolean )?value ("(?:[^"\\]|\\.)*") for (?:flag )?(-\S+): (.*))$`)

// set sets a flag to what the environment or the configuration says.
func (f *Flags) set(name, value string) error {
	err := f.Set(name, value)
	if err != nil {
		return f.takes(name, strconv.Quote(value), err)
	}
	return f.inRange(f.Lookup(name))
}

// inRange refuses what InRange does of a flag that is not as it is by itself, nothing for a file, and what is no word of its enum.
func (f *Flags) inRange(one *flag.Flag) error {
	tag := f.ranges[one.Name]
	words, closed := tag.Lookup("enum")
	switch all := strings.Split(words, ","); {
	case closed && !slices.Contains(all, one.Value.String()):
		return fmt.Errorf("use %s", strings.Join(all[:len(all)-1], ", ")+" or "+all[len(all)-1])
	case tag.Get("type") == "existingfile" && one.Value.String() == "":
		return errors.New("use the name of a file")
	}
	getter, ok := one.Value.(flag.Getter)
	if !ok || one.Value.String() == one.DefValue {
		return nil
	}
	return InRange(getter.Get(), tag)
}

// quotedText is what a flag says, text in quotes.
func quotedText(v flag.Value) string {
	if getter, ok := v.(flag.Getter); ok {
		if text, ok := getter.Get().(string); ok {
			return strconv.Quote(text)
		}
	}
	return v.String()
}

// takes says of a value that a flag does not take what it takes. The package flag says so only of flags of other packages, whose words may
// begin with the value.
func (f *Flags) takes(name, quoted string, err error) error {
	var value any
	if getter, ok := f.Lookup(name).Value.(flag.Getter); ok {
		value = getter.Get()
	}
	switch value.(type) {
	case bool:
		return errors.New("use true or false")
	case int, int64, uint64:
		return errors.New("use a whole number")
	case float64:
		return errors.New("use a number")
	case time.Duration:
		return errors.New("use a duration like 90s, 10m or 36h")
	}
	return errors.New(strings.TrimPrefix(err.Error(), quoted+": "))
}

// InRange refuses a number or a duration that is below what the tag least of its field says, 0 where there is none, or above its tag most.
func InRange(value any, tag interface{ Get(key string) string }) error {
	v := reflect.Indirect(reflect.ValueOf(value))
	var n float64
	bound := func(s string) float64 { f, _ := strconv.ParseFloat(s, 64); return f }
	switch {
	case !v.IsValid():
		return nil
	case v.Type() == reflect.TypeFor[time.Duration]():
		n, bound = float64(v.Int()), func(s string) float64 { d, _ := time.ParseDuration(s); return float64(d) }
	case v.CanInt():
		n = float64(v.Int())
	case v.CanFloat():
		n = v.Float()
	default:
		return nil
	}
	least, most := cmp.Or(tag.Get("least"), "0"), tag.Get("most")
	switch {
	case !(n >= bound(least)): // also what is no number
		return fmt.Errorf("use %s or more", least)
	case most != "" && n > bound(most):
		return fmt.Errorf("use at most %s", most)
	}
	return nil
}

func (f *Flags) takeSection(c *Config, section string, given map[string]bool) error {
	for _, s := range c.Settings() {
		if s.Section != section {
			continue
		}
		if f.Lookup(s.Key) == nil || s.Key == "config" || s.Key == "version" || section == "" && !f.common[s.Key] {
			return c.Unknown(s, f.Name())
		}
		if given[s.Key] {
			continue
		}
		text, ok := c.Value(s).(string)
		if !ok {
			return c.Bad(s, errors.New("one value, not a list"))
		}
		if err := f.set(s.Key, text); err != nil {
			return c.Bad(s, fmt.Errorf("%q: %w", text, err))
		}
	}
	return nil
}

// Policies are the retention policies of the configuration file.
func (f *Flags) Policies() ([]retention.Policy, error) { return OpenPolicies(f.config) }

// Collecting are the flags that say what a collector decides by.
type Collecting struct {
	Quarantine time.Duration `placeholder:"24h" help:"How long what is condemned can be had back with spool gc undelete; default: not at all."`
	InboxAge   time.Duration `default:"1h" help:"Least age of a body in the inbox that no event claims (${default})."`
	EndedAge   time.Duration `default:"24h" help:"How long it is known that an output has ended, so that its id is taken (${default})."`
	ReclaimAge time.Duration `default:"24h" help:"How long bytes must have been seen that no record names (${default})."`
	Share      float64       `default:"0.3" most:"1" help:"Most that may be condemned of all packs and blobs, or reclaimed of a bucket's bytes (${default})."`
	Floor      int64         `default:"67108864" placeholder:"BYTES" help:"Bytes that may always go, whatever share they are (${default})."`
	Allow      []string      `placeholder:"BRAKE" help:"Go on in spite of a brake: no-roots, share, rewind, damage, reclaim, world, class, missing."`
}

// Config is what the flags say.
func (f Collecting) Config() gc.Config {
	cfg := gc.Safe()
	// 0 means none here
	cfg.Quarantine, cfg.InboxAge, cfg.Ended, cfg.ReclaimAge = f.Quarantine, f.InboxAge, f.EndedAge, f.ReclaimAge
	cfg.Share, cfg.Floor = f.Share, cmp.Or(f.Floor, -1)
	for _, name := range f.Allow {
		cfg.Allow = append(cfg.Allow, gc.Brake(name))
	}
	return cfg
}

// Publishing are the flags that say what the lines of an input are.
type Publishing struct {
	Session   string `placeholder:"S" help:"Session that the entries go to."`
	Thread    string `default:"main" placeholder:"T" help:"Thread that the entries go to (${default})."`
	Dialect   string `placeholder:"D" help:"What the entries are: claude, codex, copilot, gemini, item, omp, opencode, qwen, raw or step."`
	Envelopes bool   `help:"Each line is {\"session\",\"thread\",\"dialect\",\"body\",\"time\",\"user\",\"seq\"}; the flags above are defaults."`
	UserID    string `name:"user-id" placeholder:"U" help:"user_id stamped on the items."`
	Producer  string `placeholder:"P" help:"Identity of the source: the same lines published again under it add nothing; other lines under sequences that it has used are dead letters."`
	Epoch     uint64 `placeholder:"E" help:"Incarnation of the producer; a greater one fences the lower ones."`
	StartSeq  uint64 `default:"1" placeholder:"N" help:"Sequence of the first line (${default}): for lines behind those that the producer has published, one above its last."`
}

// Config is what the flags say.
func (p Publishing) Config() (ingest.Config, error) {
	if !p.Envelopes && (p.Session == "" || p.Dialect == "") {
		return ingest.Config{}, UsageError{Err: fmt.Errorf("say where the entries go and what they are: --session S, "+
			"and --dialect with one of %s",
			strings.Join(dialect.Names(), ", "))}
	}
	host, _ := os.Hostname()
	cfg := ingest.Config{
		Thread: events.Thread{Session: p.Session, Name: p.Thread}, Dialect: p.Dialect, Envelopes: p.Envelopes,
		Producer: p.Producer, Epoch: p.Epoch, Start: p.StartSeq, User: p.UserID, Host: host,
	}
	cfg.Producer = cmp.Or(cfg.Producer, threads.Ephemeral+ulid.Make().String())
	if err := cfg.Validate(); err != nil {
		return cfg, UsageError{Err: err}
	}
	return cfg, nil
}

// checkTime is how long a look at what an entry refers to may take.
const checkTime = 5 * time.Second

// Check is ingest.Config's, for who publishes lines: it refuses entries that would become dead letters (client.CheckEntry).
// After a look that failed there is none: a producer may lack the right to look, and publishes nevertheless.
func Check(cl *client.Client) func(context.Context, *events.Event, dialect.Entry) error {
	blind := false
	return func(ctx context.Context, e *events.Event, read dialect.Entry) error {
		if blind {
			return nil
		}
		ctx, cancel := context.WithTimeout(ctx, checkTime)
		defer cancel()
		err := cl.Internal().CheckEntry(ctx, e, read)
		if errors.Is(err, client.ErrMissingRef) || errors.Is(err, client.ErrPromptTaken) {
			return err
		}
		blind = err != nil
		return nil
	}
}

// Door are the flags of who listens for HTTP.
type Door struct {
	HTTP      string `name:"http" default:"127.0.0.1:7717" placeholder:"HOST:PORT" help:"Address of the HTTP side (${default})."`
	TokenFile string `type:"existingfile" placeholder:"FILE" help:"File with the bearer tokens that HTTP requests must carry; needed to listen beyond loopback."`
	HTTPCert  string `name:"http-cert" type:"existingfile" placeholder:"FILE" help:"Certificate of the HTTP side: clients then must use TLS."`
	HTTPKey   string `name:"http-key" type:"existingfile" placeholder:"FILE" help:"Its key."`
	MCPAnswer bool   `name:"mcp-answer" help:"Let agents answer prompts at /mcp, too, with a token that has the scope answer."`
	Rates
}

// API is what the flags say of the HTTP API.
func (d Door) API(log *slog.Logger) (cfg httpapi.Config, err error) {
	cfg.Log, cfg.Cert, cfg.Key, cfg.MCPAnswers = log, d.HTTPCert, d.HTTPKey, d.MCPAnswer
	cfg.Version, _ = Version()
	if cfg.Quotas, err = d.Rates.Open(); err != nil {
		return cfg, err
	}
	if d.TokenFile != "" {
		cfg.Tokens, err = access.ReadFile(d.TokenFile)
	}
	if err == nil && d.HTTP != "" {
		err = httpapi.CheckListen(d.HTTP, cfg.Tokens)
	}
	if err != nil {
		err = UsageError{Err: err}
	}
	return cfg, err
}

// Webhooks are those of subscriptions to Durable Streams.
type Webhooks struct {
	WebhookKey      string `name:"webhook-key" type:"path" placeholder:"FILE" help:"Ed25519 key, PEM, that signs webhooks of subscriptions; made when it is not there. spool up has one in its data directory."`
	PrivateWebhooks bool   `name:"private-webhooks" help:"Webhooks may be of this machine or network."`
}

// Streams are the Durable Streams of a connection, and the subscriptions to them.
func (w Webhooks) Streams(conn *natsio.Conn, log *slog.Logger) (*dstreams.Handler, *subscriptions.Service, error) {
	streams := dstreams.New(dstreams.On(conn, log))
	cfg := subscriptions.Config{
		Client: client.New(conn), Records: conn.Records(), Streams: streams, Prefix: dstreams.Prefix, Private: w.PrivateWebhooks, Log: log,
	}
	var err error
	if w.WebhookKey != "" {
		if cfg.Key, err = subscriptions.Key(w.WebhookKey); err != nil {
			return nil, nil, fmt.Errorf("--webhook-key: %w", err)
		}
	}
	return streams, subscriptions.New(cfg), nil
}

// WebDoor is a Door that pages of other origins may use.
type WebDoor struct {
	Door
	CORSOrigin []string `name:"cors-origin" placeholder:"ORIGIN" help:"Origins of web pages that may use the API, as in https://example.com."`
}

// API is what the flags say of the HTTP API.
func (d WebDoor) API(log *slog.Logger) (httpapi.Config, error) {
	if err := httpapi.CheckOrigins(d.CORSOrigin); err != nil {
		return httpapi.Config{}, UsageError{Err: err}
	}
	cfg, err := d.Door.API(log)
	cfg.Origins = d.CORSOrigin
	return cfg, err
}
