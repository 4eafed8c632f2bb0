package metrics_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"spool/internal/faulttest"
	"spool/internal/gc"
	"spool/internal/httpapi"
	"spool/internal/metrics"
	"spool/internal/must"
	"spool/internal/natsadmin"
	"spool/internal/natstest"
	"spool/internal/persist"
	"spool/internal/quota"
	"spool/internal/service"
	"spool/pkg/client"
	"spool/pkg/events"
)

// Every metric that the dashboard draws and that docs/operations.md lists is in what a process that works answers, and every
// metric of Spool that it answers is in the document.
func TestNames(t *testing.T) {
	conn := natstest.Conn(t)
	log := slog.New(slog.DiscardHandler)
	reg := service.Metrics("up")
	stop := service.Observed(conn, reg, "persister", "applies events to threads", nil, log)
	defer stop()
	reg.Disk(func() (int64, error) { return 1, nil })
	p := service.NewPersister(conn, service.PersisterConfig{Config: persist.Config{Lane: -1}, Metrics: reg}, log)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	defer func() { cancel(); <-ended }()

	cl := client.New(conn)
	th := events.Thread{Session: "s", Name: "main"}
	must.Get(cl.Publisher(client.PublisherConfig{Producer: "p"}).Publish(ctx,
		client.Entry{Thread: th, Dialect: "raw", Body: []byte(`{"a":1}`), Seq: 1}))(t)
	wait, done := context.WithTimeout(ctx, 30*time.Second)
	defer done()
	must.Do(t, cl.Thread(th).Await(wait, "p", 0, 1))
	behind := events.Event{Kind: events.KindEntry, Dialect: "raw", Thread: th, Producer: "p", Seq: 9, Prev: 8, Body: []byte(`{"a":9}`)}
	must.Get(conn.JetStream().Publish(ctx, events.EventSubject(th, behind.Kind), behind.Encode()))(t) // 8 was never stored
	must.Do(t, faulttest.Settle(wait, conn))
	report := must.Get(json.Marshal(gc.Report{Cycle: "c", Applied: true, Seconds: 2}))(t)
	must.Do(t, natsadmin.New(conn).Report(ctx, report))

	quotas := quota.New(quota.Rates{Token: quota.Rate{Entries: 1}})
	for range 4 {
		_, _ = quotas.Take(time.Now(), 0, quota.Use{Token: "t", Entries: 1000})
	}
	reg.Quotas(quotas)
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", reg.Handler())
	srv := httptest.NewServer(reg.HTTP(mux))
	defer srv.Close()
	get(t, srv.URL+"/metrics") // so that there is a request to count
	text := get(t, srv.URL+"/metrics")
	for _, want := range []string{"spool_entries_total 1\n", "spool_events_superseded_total 1\n", "spool_system_up 1\n",
		"spool_gc_duration_seconds 2\n", `spool_http_requests_total{code="2xx",method="GET"} 1`,
		`spool_quota_refused_total{quota="token_entries"} 3`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in the answer", want)
		}
	}
	answered := names(text)
	for _, file := range []string{"../../deploy/grafana/spool.json", "../../deploy/prometheus/spool.rules.yml", "../../docs/operations.md"} {
		b := must.Get(os.ReadFile(file))(t)
		found := names(string(b))
		if len(found) < 15 {
			t.Errorf("%s names %d metrics", file, len(found))
		}
		for _, name := range found {
			if !slices.Contains(answered, name) && !slices.Contains(elsewhere, name) {
				t.Errorf("%s names %s, which is not in the answer", file, name)
			}
		}
		if strings.HasSuffix(file, ".md") {
			for _, name := range answered {
				base := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")
				if !slices.Contains(found, name) && !slices.Contains(found, base) {
					t.Errorf("%s does not say what %s is", file, name)
				}
			}
		}
	}
}

// elsewhere are words of the documents that begin like metrics and are none of this process: buckets, and what spool check prints.
var elsewhere = []string{
	"spool_nodes", "spool_blobs", "spool_artifacts", "spool_inbox", "spool_check_status", "spool_check_value",
	"spool_account_limit_bytes", // only where there is a limit
}

func names(text string) []string {
	all := regexp.MustCompile(`\bspool_[a-z_]+`).FindAllString(text, -1)
	slices.Sort(all)
	return slices.Compact(all)
}

func get(t *testing.T, url string) string {
	t.Helper()
	r := must.Get(http.Get(url))(t)
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d, %v: %s", url, r.StatusCode, err, b)
	}
	return string(b)
}

// TestStreamsAreNotTimed: a request that lasts as long as its client likes is counted, and says nothing of how fast answers are.
func TestStreamsAreNotTimed(t *testing.T) {
	conn := natstest.Conn(t)
	reg := metrics.New("ingest", "0", "")
	srv := httptest.NewServer(reg.HTTP(httpapi.For(conn, httpapi.Config{Client: client.New(conn), Metrics: reg.Handler()})))
	defer srv.Close()
	for _, path := range []string{"/v1/live", "/v1/heads"} {
		ctx, cancel := context.WithCancel(t.Context())
		q := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, srv.URL+path, nil))(t)
		res := must.Get(srv.Client().Do(q))(t)
		cancel()
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
	}
	get(t, srv.URL+"/v1/sessions")
	for {
		text := get(t, srv.URL+"/metrics")
		open, timed := value(t, text, "spool_http_requests_open"), value(t, text, "spool_http_request_seconds_count")
		scrapes := value(t, text, `spool_http_requests_total{code="2xx",method="GET"}`)
		if open > 1 { // the streams have not noticed yet that nobody reads
			continue
		}
		if scrapes-timed != 2 {
			t.Errorf("%v requests, %v of them timed, want all but two streams", scrapes, timed)
		}
		return
	}
}

// value reads a metric of a scrape.
func value(t *testing.T, text, name string) (v float64) {
	t.Helper()
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			v := must.Get(strconv.ParseFloat(strings.TrimSpace(rest), 64))(t)
			return v
		}
	}
	return 0
}
