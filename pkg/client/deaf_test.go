package client_test

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"testing"

	"spool/internal/must"
	"spool/pkg/client"
)

// deaf passes bytes between clients and a server, and can hold back what the server says.
type deaf struct {
	net.Listener
	held sync.RWMutex // locked while nothing comes back
	run  sync.WaitGroup
}

func newDeaf(t *testing.T, server string) *deaf {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	d := &deaf{Listener: l}
	d.run.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", server)
			if err != nil {
				_ = near.Close()
				continue
			}
			d.run.Go(func() { _, _ = io.Copy(far, near); _ = far.Close() })
			d.run.Go(func() { _, _ = io.Copy(unheard{near, d}, far); _ = near.Close() })
		}
	})
	t.Cleanup(func() { _ = l.Close(); d.run.Wait() })
	return d
}

func (d *deaf) url() string { return "nats://" + d.Addr().String() }

// unheard writes when nothing is held back.
type unheard struct {
	io.Writer
	d *deaf
}

func (u unheard) Write(b []byte) (int, error) {
	u.d.held.RLock()
	defer u.d.held.RUnlock()
	return u.Writer.Write(b)
}

// unanswered publishes while no answer comes, until the entries are stored, and gives up.
func unanswered(t *testing.T, s *site, d *deaf, publish func(context.Context) error) {
	t.Helper()
	before := inEvents(t, s)
	d.held.Lock()
	defer d.held.Unlock()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- publish(ctx) }()
	must.Until(t, "they are stored", func() bool { return inEvents(t, s) > before })
	cancel()
	if err := <-done; err == nil {
		t.Fatal("an entry that nobody acked is published")
	}
}

func inEvents(t *testing.T, s *site) uint64 {
	t.Helper()
	stream := must.Get(s.conn.JetStream().Stream(t.Context(), "SPOOL_EVENTS"))(t)
	return stream.CachedInfo().State.LastSeq
}

// An agent is not answered in time. Whether it goes on with the next entry or publishes the same again, by itself or among
// others, each entry that is acked is in the thread, once.
func TestUnknownOutcome(t *testing.T) {
	one := client.Filter{Session: "s", Thread: "main"}
	for name, c := range map[string]struct {
		fails, then [][]string
		want        []string
	}{
		"goes on":              {[][]string{{"2"}}, [][]string{{"3"}, {"4"}}, []string{"1", "2", "3", "4"}},
		"again":                {[][]string{{"2"}}, [][]string{{"2"}, {"3"}}, []string{"1", "2", "3"}},
		"again, one by one":    {[][]string{{"2", "3", "4"}}, [][]string{{"2"}, {"3"}, {"4"}, {"5"}}, []string{"1", "2", "3", "4", "5"}},
		"again, with the next": {[][]string{{"2", "3"}}, [][]string{{"2", "3", "4"}}, []string{"1", "2", "3", "4"}},
		"twice, then goes on":  {[][]string{{"2"}, {"3"}}, [][]string{{"4"}}, []string{"1", "2", "3", "4"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.up()
			d := newDeaf(t, s.addr)
			cl := must.Get(client.Connect(t.Context(), client.Config{URL: d.url()}))(t)
			defer cl.Close()
			p, th := cl.Publisher(client.PublisherConfig{}), thread("s")
			publish := func(ctx context.Context, texts []string) error {
				var es []client.Entry
				for _, text := range texts {
					es = append(es, post(th, text))
				}
				_, err := p.Publish(ctx, es...)
				return err
			}
			must.Do(t, publish(limited(t), []string{"1"}))
			for _, texts := range c.fails {
				unanswered(t, s, d, func(ctx context.Context) error { return publish(ctx, texts) })
			}
			for _, texts := range c.then {
				must.Do(t, publish(limited(t), texts))
			}
			if got := texts(t, cl.Subscribe(limited(t), one, client.Position{N: 1}), len(c.want)); !slices.Equal(got, c.want) {
				t.Errorf("items %v, want %v", got, c.want)
			}
		})
	}
}

// A sequence of the caller's own names one entry, also when nobody knows whether that is stored.
func TestUnknownOutcomeOfASequence(t *testing.T) {
	s := newSite(t)
	s.up()
	d := newDeaf(t, s.addr)
	cl := must.Get(client.Connect(t.Context(), client.Config{URL: d.url()}))(t)
	defer cl.Close()
	p, th := cl.Publisher(client.PublisherConfig{Producer: "laptop"}), thread("s")
	at := func(seq uint64, text string) client.Entry {
		e := post(th, text)
		e.Seq = seq
		return e
	}
	must.Get(p.Publish(limited(t), at(1, "1")))(t)
	unanswered(t, s, d, func(ctx context.Context) error {
		_, err := p.Publish(ctx, at(7, "2"))
		return err
	})
	if _, err := p.Publish(limited(t), at(7, "another")); err == nil {
		t.Error("sequence 7 names two entries")
	}
	for _, e := range []client.Entry{at(7, "2"), at(8, "3")} {
		must.Get(p.Publish(limited(t), e))(t)
	}
	want := []string{"1", "2", "3"}
	if got := texts(t, cl.Subscribe(limited(t), client.Filter{Session: "s", Thread: "main"}, client.Position{N: 1}),
		3); !slices.Equal(got, want) {
		t.Errorf("items %v, want %v", got, want)
	}
}

// An offline directory is full after a server was tried: nobody knows whether the entry is stored, and the next is another one.
func TestUnknownOutcomeOffline(t *testing.T) {
	s := newSite(t)
	s.up()
	d := newDeaf(t, s.addr)
	cl, err := client.Connect(t.Context(), client.Config{URL: d.url(), Offline: t.TempDir(), OfflineBytes: 1})
	must.Do(t, err)
	defer cl.Close()
	p, th := cl.Publisher(client.PublisherConfig{}), thread("s")
	d.held.Lock()
	_, err = p.Publish(limited(t), post(th, "1"))
	d.held.Unlock()
	if !errors.Is(err, client.ErrOfflineFull) {
		t.Fatalf("Publish without an answer = %v, want ErrOfflineFull", err)
	}
	must.Get(p.Publish(limited(t), post(th, "2")))(t)
	want := []string{"1", "2"}
	if got := texts(t, cl.Subscribe(limited(t), client.Filter{Session: "s", Thread: "main"}, client.Position{N: 1}),
		2); !slices.Equal(got, want) {
		t.Errorf("items %v, want %v", got, want)
	}
}
