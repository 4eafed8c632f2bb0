// Package metrics shows what a process does, and what the NATS system holds, in the text format of Prometheus. The names are in
// docs/operations.md; their labels come from closed sets, and are never an id.
//
//	what this process does    counters of the persister, histograms of its commits, requests of the HTTP side: added as it works
//	what the system holds     streams, backlog, persisters, dead letters, the last gc: asked for when somebody looks
package metrics

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"spool/internal/persist"
	"spool/internal/quota"
)

// Registry is the metrics of one process. The zero value is not usable.
type Registry struct{ reg *prometheus.Registry }

// New makes the registry of a process: role is what it is ("up", "serve", "persister", "ingest", "gc"), version and commit what it
// was built from.
func New(role, version, commit string) *Registry {
	r := &Registry{prometheus.NewRegistry()}
	r.reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "spool_build_info", Help: "1, with what runs here."},
		[]string{"role", "version", "commit"})
	build.WithLabelValues(role, version, commit).Set(1)
	r.reg.MustRegister(build)
	return r
}

// Partitions adds how many partitions a persister holds.
func (r *Registry) Partitions(holds func() int) {
	r.reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "spool_persister_partitions", Help: "Partitions of SPOOL_EVENTS that this persister holds.",
	}, func() float64 { return float64(holds()) }))
}

// Persister adds what a persister does. The function that it returns is for persist.Deps.Committed.
func (r *Registry) Persister(stats func() persist.Stats) func(persist.Committed) {
	for _, c := range []struct {
		name, help string
		value      func(persist.Stats) int64
	}{
		{"spool_events_applied_total", "Events that are through, the repeated and the dead included.",
			func(s persist.Stats) int64 { return s.Applied }},
		{"spool_events_repeated_total", "Events that had been applied before.", func(s persist.Stats) int64 { return s.Repeated }},
		{"spool_events_guessed_total", "Of those, events of which SPOOL_EVENTS can tell no more whether they say what was applied.",
			func(s persist.Stats) int64 { return s.Guessed }},
		{"spool_events_superseded_total", "Events that are linked to one that was never stored: their producer was told.",
			func(s persist.Stats) int64 { return s.Superseded }},
		{"spool_dead_letters_total", "Events that went to the dead letters.", func(s persist.Stats) int64 { return s.Dead }},
		{"spool_entries_total", "Entries appended to threads.", func(s persist.Stats) int64 { return s.Entries }},
		{"spool_entries_unknown_total", "Entries of a type that their dialect does not know.", func(s persist.Stats) int64 { return s.Unknown }},
		{"spool_items_total", "Items published.", func(s persist.Stats) int64 { return s.Items }},
		{"spool_items_too_large_total",
			"Entries with items over the budget that cannot be cut: stubs have their numbers, the threads are failed.",
			func(s persist.Stats) int64 { return s.ItemsTooLarge }},
		{"spool_artifacts_not_inherited_total", "Artifacts that forks did not get: their records cannot be read.",
			func(s persist.Stats) int64 { return s.RowsUnread }},
		{"spool_items_refused_total", "Items that the store refuses for good: stubs have their numbers.",
			func(s persist.Stats) int64 { return s.ItemsRefused }},
		{"spool_dead_letters_refused_total", "Dead letters that the store refuses for good: SPOOL_EVENTS alone has their events.",
			func(s persist.Stats) int64 { return s.LettersRefused }},
		{"spool_nodes_total", "Nodes stored.", func(s persist.Stats) int64 { return s.Nodes }},
		{"spool_commits_total", "Atomic batches of records.", func(s persist.Stats) int64 { return s.Commits }},
		{"spool_commits_refused_total", "Commits that were prepared again, because a head or a fence had moved.",
			func(s persist.Stats) int64 { return s.Refused }},
		{"spool_entries_truncated_total", "Entries that a size rule cut.", func(s persist.Stats) int64 { return s.Truncated }},
		{"spool_values_externalized_total", "Values moved into blobs.", func(s persist.Stats) int64 { return s.Externalized }},
		{"spool_entry_bytes_total", "Bytes of entries as they came.", func(s persist.Stats) int64 { return s.BytesIn }},
		{"spool_stored_bytes_total", "Bytes of packs and blobs written.", func(s persist.Stats) int64 { return s.BytesStored }},
		{"spool_secrets_total", "Secrets found in entries and outputs.", func(s persist.Stats) int64 { return s.Secrets }},
		{"spool_deduplicated_bytes_total", "Bytes of blobs that were stored already.", func(s persist.Stats) int64 { return s.Deduplicated }},
		{"spool_outputs_total", "Streaming outputs that ended.", func(s persist.Stats) int64 { return s.Outputs }},
		{"spool_output_bytes_total", "Bytes of streaming outputs as they came.", func(s persist.Stats) int64 { return s.OutputBytes }},
		{"spool_head_hits_total", "Threads of batches whose heads were in memory.", func(s persist.Stats) int64 { return s.HeadHits }},
		{"spool_head_misses_total", "Threads of batches whose heads were read.", func(s persist.Stats) int64 { return s.HeadMisses }},
		{"spool_heads_evicted_total", "Heads that left memory to make room for others.", func(s persist.Stats) int64 { return s.HeadsEvicted }},
	} {
		r.reg.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: c.name, Help: c.help},
			func() float64 { return float64(c.value(stats())) }))
	}
	r.reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "spool_head_bytes", Help: "Bytes that the heads in memory take, about.",
	}, func() float64 { return float64(stats().HeadBytes) }))
	r.refused("threads", func() int64 { return stats().OverThreads })
	r.refused("producers", func() int64 { return stats().OverProducers })
	r.refused("sessions", func() int64 { return stats().OverSessions })
	batch := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "spool_commit_events", Help: "Events in a commit.",
		Buckets: prometheus.ExponentialBuckets(1, 2, 11)})
	took := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "spool_commit_seconds",
		Help: "From the first upload of a commit to its answer, its repeats included.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 14)})
	r.reg.MustRegister(batch, took)
	return func(c persist.Committed) {
		batch.Observe(float64(c.Events))
		took.Observe(c.Took.Seconds())
	}
}

// Quotas adds what was refused because it was beyond a quota of the HTTP side; nil: it has none.
func (r *Registry) Quotas(l *quota.Limiter) {
	if l == nil {
		return
	}
	for name := range l.Refusals() {
		r.refused(name, func() int64 { return l.Refusals()[name] })
	}
}

// refused adds what was refused because of a quota.
func (r *Registry) refused(quota string, n func() int64) {
	r.reg.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "spool_quota_refused_total", Help: "What was refused because it was beyond a quota.",
		ConstLabels: prometheus.Labels{"quota": quota},
	}, func() float64 { return float64(n()) }))
}

// HTTP counts the requests of a handler by method and class of status, and measures how long they took. Requests that last as
// long as a client likes are not measured: their handler calls the method Untimed of the ResponseWriter, which is found by
// Unwrap.
func (r *Registry) HTTP(next http.Handler) http.Handler {
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "spool_http_requests_total", Help: "Requests answered."},
		[]string{"method", "code"})
	open := prometheus.NewGauge(prometheus.GaugeOpts{Name: "spool_http_requests_open",
		Help: "Requests that are being answered, live readers included."})
	took := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "spool_http_request_seconds",
		Help:    "Time to the end of an answer; event streams, long polls and streaming outputs are left out.",
		Buckets: prometheus.ExponentialBuckets(0.001, 4, 10)})
	r.reg.MustRegister(requests, open, took)
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		open.Inc()
		defer open.Dec()
		start, s := time.Now(), &status{ResponseWriter: w, code: http.StatusOK}
		next.ServeHTTP(s, q)
		requests.WithLabelValues(method(q.Method), strconv.Itoa(s.code/100)+"xx").Inc()
		if !s.untimed {
			took.Observe(time.Since(start).Seconds())
		}
	})
}

// method keeps the label in a closed set: what a client sends is not.
func method(m string) string {
	switch m {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions, http.MethodPatch:
		return m
	}
	return "other"
}

// status remembers what was answered.
type status struct {
	http.ResponseWriter
	code    int
	untimed bool
}

// Untimed says that the time of the answer means nothing.
func (s *status) Untimed() { s.untimed = true }

func (s *status) WriteHeader(code int) { s.code = code; s.ResponseWriter.WriteHeader(code) }

// Unwrap lets a stream flush and set deadlines.
func (s *status) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// Handler answers a scrape.
func (r *Registry) Handler() http.Handler {
	return promhttp.HandlerFor(r.reg, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: scrapeTime})
}

// scrapeTime bounds a scrape: the system is asked over the network.
const scrapeTime = 10 * time.Second

// Serve answers GET /metrics, and GET /healthz without asking anybody, on an address of its own until ctx ends, for processes that have
// no HTTP side.
func (r *Registry) Serve(ctx context.Context, addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", r.Handler())
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {}) // 200: the process runs
	s := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
	defer context.AfterFunc(ctx, func() { _ = s.Close() })()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
