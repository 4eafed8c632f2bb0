package metrics

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"spool/internal/gc"
	"spool/internal/jsonscan"
	"spool/internal/natsadmin"
	"spool/internal/natsio"
	"spool/internal/scrub"
	"spool/pkg/events"
)

// System adds what the NATS system holds. It is asked when somebody looks, at most every five seconds, however many look.
func (r *Registry) System(conn *natsio.Conn, log *slog.Logger) {
	r.reg.MustRegister(&system{sys: natsadmin.Of(conn), log: log})
}

// Disk adds what is free on the disk of the embedded server.
func (r *Registry) Disk(free func() (int64, error)) {
	r.reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "spool_disk_free_bytes",
		Help: "Free on the disk of the data directory; -1 when nobody knows."}, func() float64 {
		n, err := free()
		if err != nil {
			return -1
		}
		return float64(n)
	}))
}

type system struct {
	sys natsadmin.System
	log *slog.Logger

	mu   sync.Mutex
	at   time.Time
	last []prometheus.Metric
	mute bool // we may not ask whether streams take writes
}

const (
	fresh   = 5 * time.Second // how long what was asked serves
	askTime = 5 * time.Second
)

// gauge describes a metric of the system.
func gauge(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

var (
	descUp       = gauge("spool_system_up", "1 when the system answered the last time somebody looked.")
	descMessages = gauge("spool_stream_messages", "Messages in a stream.", "stream")
	descBytes    = gauge("spool_stream_bytes", "Bytes in a stream.", "stream")
	descLimit    = gauge("spool_stream_limit_bytes", "Most bytes of a stream; no series where there is no limit.", "stream")
	descTakes    = gauge("spool_stream_takes_writes",
		"1 when a stream takes writes; no series where this process may not ask.", "stream")
	descPending    = gauge("spool_backlog_events", "Events that are stored and not delivered to a persister.")
	descUnacked    = gauge("spool_unacked_events", "Events that a persister has and has not acknowledged.")
	descServed     = gauge("spool_partitions_served", "Partitions that a persister has.")
	descPartitions = gauge("spool_partitions", "Partitions that there are.")
	descStore      = gauge("spool_account_bytes", "Bytes that the account stores.")
	descStoreLimit = gauge("spool_account_limit_bytes", "Most bytes that the account may store; no series where there is no limit.")

	descGCSuccess    = gauge("spool_gc_last_success_timestamp_seconds", "When a cycle of gc last ended well.")
	descGCDuration   = gauge("spool_gc_duration_seconds", "How long the last cycle took.")
	descGCMarked     = gauge("spool_gc_marked_nodes", "Nodes that the last cycle found to be live.")
	descGCCondemned  = gauge("spool_gc_condemned", "Packs and blobs that the last cycle condemned.")
	descGCReclaimed  = gauge("spool_gc_reclaimed_bytes", "Bytes that the last cycle freed.")
	descGCKept       = gauge("spool_gc_kept", "Packs, blobs and bodies that the last cycle kept, by why.", "why")
	descGCTombstones = gauge("spool_gc_tombstones", "Condemned packs and blobs whose bytes are still there.")
	descGCAnomalies  = gauge("spool_gc_anomalies", "Reasons for which the last cycle deleted nothing.")
	descAlarms       = gauge("spool_alarms", "What was found to be lost, or not as it was stored, and is not mended, by kind.", "kind")
	descLost         = gauge("spool_stream_lost_messages", "Messages that the server says it has lost of a stream.", "stream")
	descScrubEnd     = gauge("spool_scrub_last_end_timestamp_seconds", "When a scrub last went through everything; 0: never.")
	descScrubBytes   = gauge("spool_scrub_bytes", "Bytes that the last whole scrub read.")
	descScrubFound   = gauge("spool_scrub_findings", "What the last whole scrub found, and the one that goes on.")
	descGCDangling   = gauge("spool_gc_dangling_refs", "References to what is not there that the last cycle met.")
)

// Describe says nothing: what there is to say depends on the system.
func (s *system) Describe(chan<- *prometheus.Desc) {}

// Collect asks the system.
func (s *system) Collect(out chan<- prometheus.Metric) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.at) >= fresh {
		s.last, s.at = s.ask(), time.Now()
	}
	for _, m := range s.last {
		out <- m
	}
}

// ask never fails: who looks is told that the system did not answer.
func (s *system) ask() []prometheus.Metric {
	ctx, cancel := context.WithTimeout(context.Background(), askTime)
	defer cancel()
	a := asked{}
	err := a.streams(ctx, s.sys)
	if err == nil && !s.mute {
		s.mute = !a.takes(ctx, s.sys)
	}
	if err == nil {
		err = a.backlog(ctx, s.sys)
	}
	if err == nil {
		err = a.account(ctx, s.sys)
	}
	if err == nil {
		err = a.gc(ctx, s.sys)
	}
	if err == nil {
		err = a.damage(ctx, s.sys)
	}
	up := 1.0
	if err != nil {
		up = 0
		s.log.Warn("metrics of the system", "error", err)
	}
	a.add(descUp, up)
	return a
}

// asked is what the system answered.
type asked []prometheus.Metric

func (a *asked) add(d *prometheus.Desc, v float64, labels ...string) {
	*a = append(*a, prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...))
}

func (a *asked) streams(ctx context.Context, sys natsadmin.System) error {
	usage, err := sys.Usage(ctx)
	for _, u := range usage {
		a.add(descMessages, float64(u.Messages), u.Stream)
		a.add(descBytes, float64(u.Bytes), u.Stream)
		if u.Limit > 0 {
			a.add(descLimit, float64(u.Limit), u.Stream)
		}
	}
	return err
}

// takes reports whether we may ask.
func (a *asked) takes(ctx context.Context, sys natsadmin.System) bool {
	all := sys.Takes(ctx)
	for stream, err := range all {
		v := 1.0
		if err != nil {
			v = 0
		}
		a.add(descTakes, v, stream)
	}
	return len(all) > 0
}

func (a *asked) backlog(ctx context.Context, sys natsadmin.System) error {
	b, err := sys.Backlog(ctx)
	if err == nil {
		a.add(descPending, float64(b.Pending))
		a.add(descUnacked, float64(b.Unacked))
		a.add(descServed, float64(b.Served()))
		a.add(descPartitions, events.Partitions)
	}
	return err
}

func (a *asked) account(ctx context.Context, sys natsadmin.System) error {
	acc, err := sys.Account(ctx)
	if err != nil {
		return err
	}
	a.add(descStore, float64(acc.Store))
	if acc.MaxStore > 0 {
		a.add(descStoreLimit, float64(acc.MaxStore))
	}
	return nil
}

// damage tells what stands of losses, and of the last scrub, whoever made it.
func (a *asked) damage(ctx context.Context, sys natsadmin.System) error {
	states, err := sys.StreamStates(ctx)
	if err != nil {
		return err
	}
	for _, s := range states {
		a.add(descLost, float64(s.Lost), s.Stream)
	}
	all, err := scrub.Alarms(ctx, sys)
	if err != nil {
		return err
	}
	found := map[string]int{}
	for _, kind := range scrub.AlarmKinds {
		found[kind] = 0
	}
	for _, one := range all {
		found[one.Kind] += one.Found
	}
	for kind, n := range found {
		a.add(descAlarms, float64(n), kind)
	}
	st, err := scrub.ReadState(ctx, sys)
	if err != nil {
		return err
	}
	a.add(descScrubEnd, float64(st.Last.Ended/int64(time.Second)))
	a.add(descScrubBytes, float64(st.Last.Bytes))
	n := st.Last.Found
	if st.Now != nil {
		n += st.Now.Found
	}
	a.add(descScrubFound, float64(n))
	return nil
}

// gc tells of the last cycle, whoever ran it: its report is a record.
func (a *asked) gc(ctx context.Context, sys natsadmin.System) error {
	raw, at, err := sys.LastReport(ctx)
	if err != nil || raw == nil {
		return err
	}
	var r gc.Report
	if err := jsonscan.Decode(raw, &r); err != nil {
		return fmt.Errorf("gc's report: %w", err)
	}
	if r.Refused == "" {
		a.add(descGCSuccess, float64(at.Unix()))
	}
	a.add(descGCDuration, r.Seconds)
	a.add(descGCMarked, float64(r.LiveNodes))
	a.add(descGCCondemned, float64(r.Done.Condemned))
	a.add(descGCReclaimed, float64(r.Done.Bytes))
	a.add(descGCTombstones, float64(r.Tombstones))
	for why, n := range map[string]int{
		"root": r.Kept.Root, "young": r.Kept.Young, "claimed": r.Kept.Claimed, "waiting": r.Kept.Waiting, "quarantine": r.Kept.Quarantine,
		"spared": r.Done.Spared,
	} {
		a.add(descGCKept, float64(n), why)
	}
	a.add(descGCDangling, float64(r.Dangling))
	a.add(descGCAnomalies, float64(len(r.Anomalies)+len(r.Brakes)))
	return nil
}
