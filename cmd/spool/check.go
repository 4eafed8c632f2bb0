package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"spool/internal/gc"
	"spool/internal/jsonscan"
	"spool/internal/mapped"
	"spool/internal/natsadmin"
	"spool/internal/natsio"
	"spool/internal/record"
	"spool/internal/service"
	"spool/internal/text"
	"spool/pkg/client"
	"spool/pkg/events"
)

// checkCmd is for monitoring: numbers against thresholds, and an exit code that says the worst of them.
type checkCmd struct {
	Names    []string           `arg:"" optional:"" name:"check" help:"What to check: ${checks} (default: all)."`
	Format   string             `default:"text" enum:"nagios,json,prometheus,text" help:"Form of the answer (${enum})."`
	Warn     map[string]float64 `placeholder:"CHECK=N" help:"From which value on a check warns; also several, separated by semicolons."`
	Critical map[string]float64 `placeholder:"CHECK=N" help:"From which value on it is critical."`
	Outfile  string             `type:"path" placeholder:"FILE" help:"Write the answer there, all at once, instead of to standard output."`
}

// level is a state of a check, and its exit code as Nagios has it.
type level int

const (
	levelOK level = iota
	levelWarning
	levelCritical
	levelUnknown
)

func (l level) String() string { return [...]string{"OK", "WARNING", "CRITICAL", "UNKNOWN"}[l] }

// worse orders states: what nobody knows is worse than a warning and better than what is known to be critical.
func (l level) worse(than level) bool { return []int{0, 1, 3, 2}[l] > []int{0, 1, 3, 2}[than] }

// probe is one check. The greater its value the worse.
type probe struct {
	name, unit     string
	what           string
	warn, critical float64 // defaults; 0 = never
	do             string  // what to do about it
	measure        func(a *app, conn *natsio.Conn) (value float64, detail string, err error)
}

var probes = []probe{
	{"streams", "", "streams that are missing, or not as they must be", 0, 1, "", checkStreams},
	{"writes", "", "1 when a stream takes no writes: the server's disk is or was full, or fails", 0, 1,
		"make room on the disk of the server; then restart it, but for spool up, which goes on by itself; " +
			"nothing that was acked is lost by that", checkWrites},
	{"partitions", "", "partitions that no persister has", 1, events.Partitions,
		"start a persister (or spool up); right after a start this takes a few seconds", checkPartitions},
	{"backlog", "", "events that wait for a persister", 10_000, 1_000_000, "add persisters, or look at their logs", checkBacklog},
	{"events", "%", "how full SPOOL_EVENTS is; when it is, publishers wait", 70, 90, "are persisters running?",
		checkFill(events.EventsStream)},
	{"account", "%", "how much of what the account may store is used", 80, 95,
		"make room or raise the limit: a full account refuses every write", checkAccount},
	{"dead", "", "events that could not be applied", 1, 1000, "spool dead ls says which, and why", checkDead},
	{"prompts", "s", "age of the oldest prompt that waits for a person", 0, 0, "spool prompts ls", checkPrompts},
	{"gc", "s", "for how long a cycle of gc is due, by its schedule; without one, a day after the last",
		86_400, 6 * 86_400, "spool gc says what it would do; does a gc run?", checkGC},
	{"damage", "", "what was found to be lost, or not as it was stored, and is not mended", 0, 1, "", checkDamage},
	{"scrub", "s", "time since a scrub last went through everything", 30 * 86_400, 90 * 86_400, "run spool scrub", checkScrub},
	{"clock", "s", "how far this clock and the server's are apart", 5, 60,
		"set the clock: nothing is lost by it, but times that are shown are wrong", checkClock},
	{"quotas", "", "what was refused because of a quota since the processes began", 0, 0,
		"spool_quota_refused_total says which quota; docs/permissions.md, how to set it", checkQuotas},
}

func checkNamesList() string {
	names := mapped.List(probes, func(p probe) string { return p.name })
	return strings.Join(names, ", ")
}

// checked is one answer.
type checked struct {
	Check    string  `json:"check"`
	Status   string  `json:"status"`
	Value    float64 `json:"value"`
	Unit     string  `json:"unit,omitempty"`
	Warn     float64 `json:"warn,omitempty"`
	Critical float64 `json:"critical,omitempty"`
	Detail   string  `json:"detail"`
	What     string  `json:"what"`
	level    level
}

func (c *checkCmd) Run(a *app) error {
	chosen, err := c.chosen()
	if err != nil {
		fmt.Fprintln(a.err, "spool:", err)
		return exitCode(levelUnknown)
	}
	all, worst := []checked{}, levelOK
	if conn, err := a.dial(); err != nil {
		worst = levelCritical
		all = []checked{{Check: "connection", Status: worst.String(), Value: 1, Critical: 1, Detail: oneLine(err.Error()),
			What: "whether the NATS system is reached", level: worst}}
	} else {
		for _, p := range chosen {
			r := c.run(a, conn, p)
			if r.level.worse(worst) {
				worst = r.level
			}
			all = append(all, r)
		}
	}
	if err := c.write(a, all, worst); err != nil {
		fmt.Fprintln(a.err, "spool:", err)
		worst = levelUnknown
	}
	if worst != levelOK {
		return exitCode(worst)
	}
	return nil
}

// chosen is the checks that were named, with thresholds that name checks.
func (c *checkCmd) chosen() ([]probe, error) {
	known := func(name string) bool {
		return slices.ContainsFunc(probes, func(p probe) bool { return p.name == name })
	}
	for _, name := range slices.Concat(c.Names, slices.Collect(maps.Keys(c.Warn)), slices.Collect(maps.Keys(c.Critical))) {
		if !known(name) && name != "all" {
			return nil, service.UsageError{Err: fmt.Errorf("check %q: use %s, or all", name, checkNamesList())}
		}
	}
	if len(c.Names) == 0 || slices.Contains(c.Names, "all") {
		return probes, nil
	}
	var out []probe
	for _, p := range probes {
		if slices.Contains(c.Names, p.name) {
			out = append(out, p)
		}
	}
	return out, nil
}

func (c *checkCmd) run(a *app, conn *natsio.Conn, p probe) checked {
	r := checked{Check: p.name, Unit: p.unit, What: p.what, Warn: p.warn, Critical: p.critical}
	if w, ok := c.Warn[p.name]; ok {
		r.Warn = w
	}
	if w, ok := c.Critical[p.name]; ok {
		r.Critical = w
	}
	var err error
	r.Value, r.Detail, err = p.measure(a, conn)
	switch {
	case errors.Is(err, errFailed):
		r.level, r.Detail = levelWarning, err.Error()
	case err != nil:
		r.level, r.Detail = levelUnknown, err.Error()
	case r.Critical > 0 && r.Value >= r.Critical:
		r.level = levelCritical
	case r.Warn > 0 && r.Value >= r.Warn:
		r.level = levelWarning
	}
	r.Status, r.Detail = r.level.String(), oneLine(r.Detail)
	return r
}

func oneLine(s string) string { return text.Printable(strings.Join(strings.Fields(s), " ")) }

// write gives the answer in the form that was asked for, to a file as a whole: whoever reads it meanwhile sees the old one.
func (c *checkCmd) write(a *app, all []checked, worst level) error {
	if c.Outfile == "" {
		return c.format(a.out, all, worst)
	}
	f, err := os.CreateTemp(filepath.Dir(c.Outfile), "."+filepath.Base(c.Outfile)+".*")
	if err != nil {
		return fmt.Errorf("--outfile %s: %w", c.Outfile, err)
	}
	defer func() { _ = os.Remove(f.Name()) }()
	// A collector may be another user.
	if err := errors.Join(f.Chmod(0o644), c.format(f, all, worst), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), c.Outfile)
}

func (c *checkCmd) format(w io.Writer, all []checked, worst level) error {
	switch c.Format {
	case "json":
		return jsonLines(json.NewEncoder(w), all, asIs)
	case "nagios":
		return nagios(w, all, worst)
	case "prometheus":
		return prometheusText(w, all)
	}
	t := text.NewTable(w)
	for _, r := range all {
		fmt.Fprintf(t, "%s\t%s\t%s\n", r.Status, r.Check, cmp.Or(r.Detail, number(r.Value)+r.Unit))
	}
	return t.Flush()
}

// nagios is one line: the worst, what is not well, then every value with its thresholds.
func nagios(w io.Writer, all []checked, worst level) error {
	var bad, data []string
	for _, r := range all {
		if r.level != levelOK {
			bad = append(bad, r.Check+": "+strings.ReplaceAll(r.Detail, "|", "/"))
		}
		threshold := func(v float64) string {
			if v == 0 {
				return ""
			}
			return number(v)
		}
		data = append(data, fmt.Sprintf("%s=%s%s;%s;%s;0", r.Check, number(r.Value), r.Unit, threshold(r.Warn), threshold(r.Critical)))
	}
	said := cmp.Or(strings.Join(bad, "; "), text.Sprintf("%d checks", len(all)))
	_, err := fmt.Fprintf(w, "SPOOL %s: %s | %s\n", worst, said, strings.Join(data, " "))
	return err
}

func prometheusText(w io.Writer, all []checked) error {
	var b strings.Builder
	b.WriteString("# HELP spool_check_status State of a check: 0 ok, 1 warning, 2 critical, 3 unknown.\n# TYPE spool_check_status gauge\n")
	for _, r := range all {
		fmt.Fprintf(&b, "spool_check_status{check=%q} %d\n", r.Check, r.level)
	}
	b.WriteString("# HELP spool_check_value What a check measured.\n# TYPE spool_check_value gauge\n")
	for _, r := range all {
		if r.level != levelUnknown {
			fmt.Fprintf(&b, "spool_check_value{check=%q} %s\n", r.Check, number(r.Value))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func number(v float64) string { return fmt.Sprintf("%.10g", v) }

func checkStreams(a *app, conn *natsio.Conn) (float64, string, error) {
	if err := conn.Verify(a.ctx); err != nil {
		n := 1
		if many, ok := err.(interface{ Unwrap() []error }); ok {
			n = len(many.Unwrap())
		}
		return float64(n), err.Error(), nil
	}
	return 0, "all there, as they must be", nil
}

func checkWrites(a *app, conn *natsio.Conn) (float64, string, error) {
	if err := natsadmin.New(conn).Stores(a.ctx); err != nil && !errors.Is(err, record.ErrDenied) {
		return 1, err.Error(), nil
	}
	return 0, "every stream takes writes", nil
}

func checkPartitions(a *app, conn *natsio.Conn) (float64, string, error) {
	b, err := conn.Events().Backlog(a.ctx)
	detail := fmt.Sprintf("persisters have %d of %d partitions", b.Served(), events.Partitions)
	if len(b.Unserved) > 0 {
		detail += fmt.Sprintf("; nobody serves %v", b.Unserved)
	}
	if b.Gone > 0 {
		detail += text.Sprintf("; %d have no consumer: restart a persister, which makes it", b.Gone)
	}
	return float64(len(b.Unserved)), detail, err
}

func checkBacklog(a *app, conn *natsio.Conn) (float64, string, error) {
	b, err := conn.Events().Backlog(a.ctx)
	return float64(b.Pending + b.Unacked), text.Sprintf("%d events wait, %d are being applied", b.Pending, b.Unacked), err
}

func checkFill(stream string) func(*app, *natsio.Conn) (float64, string, error) {
	return func(a *app, conn *natsio.Conn) (float64, string, error) {
		usage, err := natsadmin.New(conn).Usage(a.ctx)
		for _, u := range usage {
			if u.Stream == stream && u.Limit > 0 {
				return percent(float64(u.Bytes), float64(u.Limit)), fmt.Sprintf("%s of %s", text.Bytes(int64(u.Bytes)), text.Bytes(u.Limit)), err
			}
		}
		return 0, "without a limit", err
	}
}

func percent(part, all float64) float64 { return float64(int(1000*part/all)) / 10 }

func checkAccount(a *app, conn *natsio.Conn) (float64, string, error) {
	acc, err := natsadmin.New(conn).Account(a.ctx)
	if err != nil || acc.MaxStore == 0 {
		return 0, text.Sprintf("%s stored, without a limit; %d streams", text.Bytes(acc.Store), acc.Streams), err
	}
	return percent(float64(acc.Store), float64(acc.MaxStore)),
		fmt.Sprintf("%s stored of %s", text.Bytes(acc.Store), text.Bytes(acc.MaxStore)), nil
}

func checkDead(a *app, conn *natsio.Conn) (float64, string, error) {
	usage, err := natsadmin.New(conn).Usage(a.ctx)
	for _, u := range usage {
		if u.Stream == events.DeadStream && u.Messages > 0 {
			return float64(u.Messages), fmt.Sprintf("%d could not be applied: spool dead ls", u.Messages), err
		}
	}
	return 0, "none", err
}

func checkPrompts(a *app, conn *natsio.Conn) (float64, string, error) {
	list, err := client.New(conn).EverySession().Prompts(a.ctx)
	var oldest time.Duration
	waiting := 0
	for _, p := range list {
		if p.Answerable && !p.Overdue(time.Now()) {
			waiting++
			oldest = max(oldest, time.Since(p.Asked))
		}
	}
	return oldest.Round(time.Second).Seconds(), fmt.Sprintf("%d wait", waiting), err
}

// errFailed: it is known to have gone wrong, without a number.
var errFailed = errors.New("gc does not do its work")

func checkGC(a *app, conn *natsio.Conn) (float64, string, error) {
	raw, at, err := natsadmin.New(conn).LastReport(a.ctx)
	if err != nil {
		return 0, "", err
	}
	due, scheduled, err := service.NextGC(a.ctx, conn, at)
	if err != nil {
		return 0, "", err
	}
	detail := "no cycle has run yet"
	if raw != nil {
		var r gc.Report
		if err := jsonscan.Decode(raw, &r); err != nil {
			return 0, "", fmt.Errorf("gc's report: %w", err)
		}
		if r.Refused != "" {
			return 0, "", fmt.Errorf("%w: %s", errFailed, r.Refused)
		}
		detail = fmt.Sprintf("%v ago, %s freed", time.Since(at).Round(time.Second), text.Bytes(r.Done.Bytes))
	}
	switch {
	case !scheduled && raw == nil:
		return 0, detail + ", and none is scheduled", nil
	case !scheduled:
		due = at.Add(24 * time.Hour)
	case due.IsZero():
		return 0, "", fmt.Errorf("%w: %s, and by its schedule none ever will", errFailed, detail)
	default:
		detail += ", the next one is due at " + due.UTC().Format(time.RFC3339)
	}
	return overdue(due, time.Now()), detail, nil
}

// overdue is for how many seconds something is due.
func overdue(due, now time.Time) float64 { return max(0, now.Sub(due).Round(time.Second).Seconds()) }

func checkClock(a *app, conn *natsio.Conn) (float64, string, error) {
	b, err := conn.Events().Backlog(a.ctx)
	skew := time.Since(b.ServerNow).Abs().Round(time.Millisecond)
	return skew.Seconds(), fmt.Sprintf("%v apart from the server", skew), err
}

func checkQuotas(a *app, conn *natsio.Conn) (float64, string, error) {
	all, err := natsadmin.New(conn).Daemons(a.ctx)
	n := int64(0)
	for _, d := range all {
		n += d.OverQuota
	}
	if n == 0 {
		return 0, "none has refused anything", err
	}
	return float64(n), fmt.Sprintf("%d requests or events were beyond one since the processes began", n), err
}
