package persist_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"spool/internal/artifactstore"
	"spool/internal/must"
	"spool/internal/natstest"
	"spool/internal/persist"
	"spool/internal/record"
	"spool/pkg/artifacts"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/sessions"
)

// putAlone puts an artifact into a session that has nothing else, as an import does.
func (r *rig) putAlone(t *testing.T, session, text string) artifacts.Record {
	t.Helper()
	n := artifactstore.NewArtifact{Record: artifacts.Record{Session: session}}
	return must.Get(artifactstore.Of(r.conn, 0).Put(soon(t), n, strings.NewReader(text)))(t)
}

// The fork of a session reads the artifacts of its source by their numbers, also when those are removed, and counts on from
// them (SPEC A7).
func TestForkHasArtifacts(t *testing.T) {
	r, ctx := newRig(t), brief(t)
	r.start(nil)
	pub := r.Publisher(client.PublisherConfig{})
	r.publish(pub, thread(1), 0, 3)
	r.await(thread(1), pub.Producer(), 3)
	source, err := r.Artifacts().Put(ctx, client.NewArtifact{Record: artifacts.Record{Session: "s1"}}, strings.NewReader("kept"))
	must.Do(t, err)
	must.Do(t, r.Session("s1").Fork(ctx, "forked", client.SessionFork{}))
	must.Do(t, r.Artifacts().Delete(ctx, source.ID))
	res := must.Get(r.Session("forked").Resolve(ctx, "artifact://0", artifacts.Lines{}))(t)
	if b, err := io.ReadAll(res.Body); err != nil || string(b) != "kept" {
		t.Errorf("artifact://0 of the fork = %q, %v", b, err)
	}
	next, err := r.Artifacts().Put(ctx, client.NewArtifact{Record: artifacts.Record{Session: "forked"}}, strings.NewReader(""))
	if err != nil || next.Seq != "1" {
		t.Errorf("the fork's next number = %s, %v, want 1", next.Seq, err)
	}
}

// However a thread is forked into another session, the fork is one: it has a header of its own, the artifacts under
// their numbers, both counters; nothing of it goes with its source (SPEC P8).
func TestForkIntoAnotherSession(t *testing.T) {
	for name, fork := range map[string]func(r *rig, t *testing.T, to events.Thread){
		"thread fork":   func(r *rig, t *testing.T, to events.Thread) { must.Do(t, r.Thread(to).Fork(soon(t), wholeOf("s0"))) },
		"control alone": func(r *rig, t *testing.T, to events.Thread) { r.forkAlone(t, to, wholeOf("s0")) },
		"session fork": func(r *rig, t *testing.T, to events.Thread) {
			must.Do(t, r.Session("s0").Fork(soon(t), to.Session, client.SessionFork{}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.start(nil)
			ctx, to := soon(t), events.Thread{Session: "copy", Name: events.MainThread}
			r.say(thread(0), "omp", sessionHeader, node("a", ""), bare("b"))
			source := must.Get(r.Artifacts().Put(ctx, client.NewArtifact{Record: artifacts.Record{Session: "s0"}}, strings.NewReader("kept")))(t)
			agent := must.Get(r.Session("s0").TakeAgentID(ctx, "", "Review"))(t)
			of := client.NewArtifact{Record: artifacts.Record{Session: "s0", Agent: agent, Writer: artifacts.FromAgent}}
			must.Get(r.Artifacts().Put(ctx, of, strings.NewReader("reviewed")))(t)
			fork(r, t, to)

			header, _, err := r.Internal().Source().ForkHeader(ctx, r.head(to), "copy")
			must.Do(t, err)
			if h, err := sessions.ParseHeader(header); err != nil || h.ID != "copy" || h.ParentSession != "s0" {
				t.Errorf("header of the fork = %s, %v, want its own with parentSession s0", header, err)
			}
			must.Do(t, r.Artifacts().Delete(ctx, source.ID))
			must.Get(r.Session("s0").Delete(ctx, client.Deletion{}))(t)
			for address, want := range map[string]string{"artifact://0": "kept", "agent://0-Review": "reviewed"} {
				res := must.Get(r.Session("copy").Resolve(ctx, address, artifacts.Lines{}))(t)
				if b, err := io.ReadAll(res.Body); err != nil || string(b) != want {
					t.Errorf("%s of the fork = %q, %v, want %q", address, b, err, want)
				}
			}
			inherited := must.Get(r.Artifacts().Record(ctx, source.ID))(t)
			if inherited.Session != "copy" || inherited.Seq != "0" {
				t.Errorf("the artifact that entries of the fork name = %+v, want the fork's", inherited)
			}
			next := must.Get(r.Artifacts().Put(ctx, client.NewArtifact{Record: artifacts.Record{Session: "copy"}}, strings.NewReader("")))(t)
			if id := must.Get(r.Session("copy").TakeAgentID(ctx, "", "Review"))(t); next.Seq != "1" || id != "1-Review" {
				t.Errorf("the fork's next number and agent = %s, %s, want 1 and 1-Review", next.Seq, id)
			}
		})
	}
}

// The main thread of a session has a header of its own, also where the session has another thread before.
func TestForkIntoASessionWithoutMain(t *testing.T) {
	r := newRig(t)
	r.start(nil)
	ctx := soon(t)
	r.say(thread(0), "omp", sessionHeader, node("a", ""), bare("b"))
	for _, name := range []string{"try", events.MainThread} {
		must.Do(t, r.Thread(events.Thread{Session: "copy", Name: name}).Fork(ctx, wholeOf("s0")))
	}
	header, _, err := r.Internal().Source().ForkHeader(ctx, r.head(events.Thread{Session: "copy", Name: events.MainThread}), "copy")
	must.Do(t, err)
	if h, err := sessions.ParseHeader(header); err != nil || h.ID != "copy" || h.ParentSession != "s0" {
		t.Errorf("header of the fork = %s, %v, want its own with parentSession s0", header, err)
	}
}

func wholeOf(session string) events.Fork {
	return events.Fork{Session: session, Thread: events.MainThread, Whole: true}
}

// forkAlone forks by an event, as an agent without the SDK does.
func (r *rig) forkAlone(t *testing.T, to events.Thread, from events.Fork) {
	t.Helper()
	p := r.Publisher(client.PublisherConfig{})
	must.Do(t, p.Control(soon(t), to, 1, events.Control{Op: events.OpFork, Fork: &from}))
	r.await(to, p.Producer(), 1)
}

// A session without artifacts that had some gives its fork the numbers all the same; a session that has its own keeps
// theirs, and what it inherits under them has no number.
func TestForkOfNumbers(t *testing.T) {
	r := newRig(t)
	r.start(nil)
	ctx := soon(t)
	r.say(thread(0), "omp", sessionHeader, node("a", ""))
	put := func(session, text string) artifacts.Record {
		n := client.NewArtifact{Record: artifacts.Record{Session: session}}
		return must.Get(r.Artifacts().Put(ctx, n, strings.NewReader(text)))(t)
	}
	must.Do(t, r.Artifacts().Delete(ctx, put("s0", "gone").ID))
	r.forkAlone(t, events.Thread{Session: "bare", Name: events.MainThread}, wholeOf("s0"))
	if a := put("bare", ""); a.Seq != "1" {
		t.Errorf("first number of a fork of a session whose artifact 0 was deleted = %s, want 1", a.Seq)
	}
	put("s0", "theirs")
	r.putAlone(t, "own", "0 of its own")
	put("own", "1 of its own")
	r.forkAlone(t, events.Thread{Session: "own", Name: events.MainThread}, wholeOf("s0"))
	res := must.Get(r.Session("own").Resolve(ctx, "artifact://1", artifacts.Lines{}))(t)
	if b, err := io.ReadAll(res.Body); err != nil || string(b) != "1 of its own" {
		t.Errorf("artifact://1 = %q, %v, want what was under the number before", b, err)
	}
	rows := must.Get(r.Session("own").Artifacts(ctx))(t)
	if len(rows) != 3 {
		t.Errorf("artifacts = %+v, want its two and the one that it inherits", rows)
	}
}

// A fork of a session with more artifacts than a commit has room for has them all: what is too much goes ahead.
func TestForkOfManyArtifacts(t *testing.T) {
	r := newRig(t)
	r.start(nil)
	r.manyArtifacts(t)
	r.forkAlone(t, events.Thread{Session: "copy", Name: events.MainThread}, wholeOf("s0"))
	numbers := map[artifacts.Seq]bool{}
	for _, row := range must.Get(r.Session("copy").Artifacts(soon(t)))(t) {
		numbers[row.Seq] = true
	}
	must.Same(t, len(numbers), manyRows+1, "the fork has %d numbers, want %d")
}

// manyRows is more artifacts than a commit has room for.
const manyRows = record.MaxCommit / 2

// manyArtifacts gives the session s0 one artifact more than manyRows.
func (r *rig) manyArtifacts(t *testing.T) {
	t.Helper()
	r.say(thread(0), "omp", sessionHeader, node("a", ""))
	first := must.Get(r.Artifacts().Put(soon(t), client.NewArtifact{Record: artifacts.Record{Session: "s0"}}, strings.NewReader("kept")))(t)
	f := must.Get(r.conn.Records().Fence(soon(t), 0))(t)
	var puts []record.Put
	for i := range manyRows {
		row := first
		row.ID = artifacts.NewID(time.UnixMilli(4_000_000_000_000), [10]byte{byte(i), byte(i >> 8)})
		row.Seq = artifacts.Seq(strconv.Itoa(i + 1))
		puts = append(puts, record.Put{Key: events.ArtifactKey("s0", string(row.ID)), Value: row.Encode()})
	}
	counter := record.Counter{Artifacts: artifacts.Seq(strconv.Itoa(manyRows))}
	puts = append(puts, record.Put{Key: events.CounterKey("s0"), Value: counter.Encode(), Expect: record.Any})
	must.Get(r.conn.Records().Commit(soon(t), f, puts))(t)
}

// meanwhile calls do behind the first commit that has artifacts of copy without its thread.
type meanwhile struct {
	bucket
	put sync.Once
	do  func()
}

func (m *meanwhile) Commit(ctx context.Context, f record.Fence, puts []record.Put) (uint64, error) {
	has := func(key string) bool {
		return slices.ContainsFunc(puts, func(p record.Put) bool { return strings.HasPrefix(p.Key, key) })
	}
	to := events.Thread{Session: "copy", Name: events.MainThread}
	seq, err := m.bucket.Commit(ctx, f, puts)
	if err == nil && has(events.ArtifactKey("copy", "")) && !has(events.HeadKey(to)) {
		m.put.Do(m.do)
	}
	return seq, err
}

// An artifact that is put between the rows that go ahead of a fork and the fork has a number for itself (SPEC A1).
func TestArtifactWhileForked(t *testing.T) {
	r := newRig(t)
	own := client.NewArtifact{Record: artifacts.Record{Session: "copy"}}
	m := &meanwhile{bucket: r.conn.Records()}
	m.do = func() { own.Record = must.Get(r.Artifacts().Put(soon(t), own, strings.NewReader("")))(t) }
	r.start(func(d *persist.Deps, _ *persist.Config) { d.Records = m })
	r.manyArtifacts(t)
	r.forkAlone(t, events.Thread{Session: "copy", Name: events.MainThread}, wholeOf("s0"))
	all := r.numberedOnce(t, "copy")
	if want := strconv.Itoa(manyRows + 1); string(own.Seq) != want || len(all) != manyRows+2 {
		t.Errorf("it has the number %q, of %d artifacts; want %s, %d", own.Seq, len(all), want, manyRows+2)
	}
}

// before calls do ahead of the first commit that puts a record of a session's artifacts.
type before struct {
	bucket
	session string
	put     sync.Once
	do      func()
}

func (b *before) Commit(ctx context.Context, f record.Fence, puts []record.Put) (uint64, error) {
	if slices.ContainsFunc(puts, func(p record.Put) bool { return strings.HasPrefix(p.Key, events.ArtifactKey(b.session, "")) }) {
		b.put.Do(b.do)
	}
	return b.bucket.Commit(ctx, f, puts)
}

// An artifact that is removed while a session is forked is in the fork with its bytes, or it is not there.
func TestArtifactRemovedWhileForked(t *testing.T) {
	r := newRig(t)
	b := &before{bucket: r.conn.Records(), session: "copy"}
	r.start(func(d *persist.Deps, _ *persist.Config) { d.Records = b })
	r.say(thread(0), "omp", sessionHeader, node("a", ""))
	put := func(text string) artifacts.Record {
		n := client.NewArtifact{Record: artifacts.Record{Session: "s0"}}
		return must.Get(r.Artifacts().Put(soon(t), n, strings.NewReader(text)))(t)
	}
	put("stays")
	goes := put("goes")
	b.do = func() { must.Do(t, r.Artifacts().Delete(soon(t), goes.ID)) }
	r.forkAlone(t, events.Thread{Session: "copy", Name: events.MainThread}, wholeOf("s0"))
	all := must.Get(r.Session("copy").Artifacts(soon(t)))(t)
	must.Same(t, len(all), 1, "the fork has %d artifacts, want %d")
	for _, row := range all {
		body, _ := must.Two(r.Artifacts().Open(soon(t), row))(t)
		text := must.Get(io.ReadAll(body))(t)
		must.Do(t, body.Close())
		must.Same(t, string(text), "stays", "the fork's artifact has %q, want %q")
	}
}

// numberedOnce are the artifacts of a session, of which no two have one number.
func (r *rig) numberedOnce(t *testing.T, session string) []artifacts.Record {
	t.Helper()
	numbers := map[artifacts.Seq]artifacts.ID{}
	all := must.Get(r.Session(session).Artifacts(soon(t)))(t)
	for _, row := range all {
		if before := numbers[row.Seq]; row.Seq != "" && before != "" {
			t.Errorf("%s and %s have the number %s", before, row.ID, row.Seq)
		}
		numbers[row.Seq] = row.ID
	}
	return all
}

// A row of the source that cannot be read is left out of a fork, and named: the others are there.
func TestForkOfAnUnreadableArtifact(t *testing.T) {
	r := newRig(t)
	log := new(natstest.Log)
	run := r.start(func(d *persist.Deps, _ *persist.Config) { d.Log = slog.New(slog.NewTextHandler(log, nil)) })
	r.say(thread(0), "omp", sessionHeader, node("a", ""))
	good := client.NewArtifact{Record: artifacts.Record{Session: "s0"}}
	must.Get(r.Artifacts().Put(soon(t), good, strings.NewReader("x")))(t)
	bad := events.ArtifactKey("s0", "art_20261120_100000_0123456789ABCDEF")
	must.Get(r.conn.Records().Write(soon(t), record.Put{Key: bad, Value: []byte("none"), Expect: record.Any}))(t)
	r.forkAlone(t, events.Thread{Session: "copy", Name: events.MainThread}, wholeOf("s0"))
	must.Same(t, len(must.Get(r.Session("copy").Artifacts(soon(t)))(t)), 1, "the fork has %d artifacts, want %d")
	named := strings.Contains(log.String(), bad)
	if n := run.Stats().RowsUnread; n != 1 || !named {
		t.Errorf("%d artifacts are counted as left out, want 1; the log names it: %v", n, named)
	}
}

// Rows that went ahead of a fork which is refused then take no numbers: an artifact that is put later has its own.
func TestRowsOfARefusedFork(t *testing.T) {
	r := newRig(t)
	own := client.NewArtifact{Record: artifacts.Record{Session: "copy"}}
	m := &meanwhile{bucket: r.conn.Records()}
	m.do = func() { // the fork is judged anew, and its source is gone by then
		own.Record = must.Get(r.Artifacts().Put(soon(t), own, strings.NewReader("")))(t)
		gone := record.Put{Key: events.HeadKey(thread(0)), Expect: record.Any}
		must.Get(r.conn.Records().Write(soon(t), gone))(t)
	}
	r.start(func(d *persist.Deps, _ *persist.Config) { d.Records = m })
	r.manyArtifacts(t)
	to := events.Thread{Session: "copy", Name: events.MainThread}
	fork := wholeOf("s0")
	p := r.Publisher(client.PublisherConfig{})
	must.Do(t, p.Control(soon(t), to, 1, events.Control{Op: events.OpFork, Fork: &fork}))
	if err := r.Thread(to).Await(soon(t), p.Producer(), 0, 1); !errors.Is(err, client.ErrRefused) {
		t.Fatalf("the fork of a thread that is gone: %v, want ErrRefused", err)
	}
	put := client.NewArtifact{Record: artifacts.Record{Session: "copy"}}
	must.Get(r.Artifacts().Put(soon(t), put, strings.NewReader("2")))(t)
	r.numberedOnce(t, "copy")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // thousands of rows
	defer cancel()
	if _, err := r.Session("copy").Delete(ctx, client.Deletion{}); err != nil {
		t.Error(err)
	}
	for _, filter := range []string{events.ArtifactKeys("copy", ""), "shared.*.copy.*"} {
		if left := must.Get(r.conn.Records().List(soon(t), filter))(t); len(left) > 0 {
			t.Errorf("%d records are left of the session that was to be forked: %s …", len(left), left[0].Key)
		}
	}
}
