package attack_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"spool/internal/must"
	"spool/pkg/events"
)

// settle waits until every partition has been dealt with.
func (a *attack) settle(nc *nats.Conn) {
	must.Eventually(a.t, "all events are dealt with", func() error {
		a.w.revive()
		for i := range events.Partitions {
			answer, err := nc.Request(fmt.Sprintf("$JS.API.CONSUMER.INFO.%s.p%d", events.EventsStream, i), nil, 5*time.Second)
			if err != nil {
				return err
			}
			var c struct {
				Pending uint64 `json:"num_pending"`
				Acks    int    `json:"num_ack_pending"`
				Error   any    `json:"error"`
			}
			if err := json.Unmarshal(answer.Data, &c); err != nil || c.Error != nil || c.Pending > 0 || c.Acks > 0 {
				return fmt.Errorf("partition %d: %.600s", i, answer.Data)
			}
		}
		return nil
	})
}

// verdicts is what the judge knows: all that was stored, and what was done to threads and sessions.
type verdicts struct {
	a       *attack
	tail    *tail
	places  map[name][]uint64
	letters map[uint64][]letter
	ops     map[string][]placed // by session, those that were not refused, in order
	forked  map[string]bool     // sessions with threads that began as forks
	found   map[string][]string // by id: the threads that have it as their own
	there   map[string]bool     // sessions
}

// placed is an operation and where it is stored.
type placed struct {
	at uint64
	t  events.Thread
	op events.Control
}

func newVerdicts(a *attack, tail *tail) *verdicts {
	return &verdicts{
		a: a, tail: tail, places: tail.places(), letters: map[uint64][]letter{}, ops: map[string][]placed{},
		forked: map[string]bool{}, found: map[string][]string{}, there: map[string]bool{},
	}
}

func (a *attack) judge(tail *tail) {
	ctx, cancel := context.WithTimeout(a.t.Context(), 5*time.Minute)
	defer cancel()
	if tail.err != nil {
		a.t.Error(tail.err)
	}
	all := must.Get(letters(ctx, tail.nc))(a.t)
	v := newVerdicts(a, tail)
	reasons := map[string]int{}
	for _, d := range all {
		v.letters[d.event] = append(v.letters[d.event], d)
		reasons[digits.ReplaceAllString(fmt.Sprintf("%.70s", d.reason), "")]++
	}
	v.note()
	v.letterBytes()
	first := a.export("first")
	v.threads(first)
	v.entries()
	v.ends()
	v.items(ctx)
	v.prompts()
	v.outputs(ctx)
	v.artifacts(ctx)
	v.checks(ctx, first)
	a.t.Logf("%d messages stored; %d entries tried, %d acked; %d letters: %v",
		len(tail.all), len(a.l.byID), a.l.acks.Load(), len(all), reasons)
}

// digits is left out of a reason.
var digits = regexp.MustCompile(`\d+`)

// note gathers the operations that were not refused. What was refused is noted in its thread, where that was there, and its copy, sent
// again for want of an answer, is a repeat.
func (v *verdicts) note() {
	seen := map[name]bool{}
	for _, s := range v.tail.all {
		for _, o := range s.each {
			if o.op == nil || seen[o.name] && o.op.Op != events.OpDelete {
				continue
			}
			if v.refused(s.at, o.name.seq) {
				seen[o.name] = !slices.ContainsFunc(v.letters[s.at], func(d letter) bool {
					return strings.Contains(d.reason, "there is no thread") || strings.Contains(d.reason, "thread was renamed")
				})
				continue
			}
			seen[o.name] = true
			v.ops[s.thread.Session] = append(v.ops[s.thread.Session], placed{s.at, s.thread, *o.op})
			if o.op.Op == events.OpFork {
				v.forked[s.thread.Session] = true
			}
		}
	}
}

func (v *verdicts) refused(at, seq uint64) bool {
	return slices.ContainsFunc(v.letters[at], func(d letter) bool { return d.seq == 0 || d.seq == seq })
}

// letterBytes holds each dead letter against its message, where the message was of one event.
func (v *verdicts) letterBytes() {
	for _, s := range v.tail.all {
		for _, d := range v.letters[s.at] {
			if len(s.each) == 1 && len(v.letters[s.at]) > 1 {
				v.a.t.Errorf("event %d of %s has %d dead letters", s.at, s.thread, len(v.letters[s.at]))
			}
			if len(s.each) == 1 && len(d.data) > 0 && sha256.Sum256(d.data) != s.sum {
				v.a.t.Errorf("the letter of event %d has other bytes than the event: %.300q", s.at, d.data)
			}
			if strings.HasPrefix(s.thread.Session, "calm") {
				v.a.t.Errorf("event %d of %s is a dead letter: %s: %.200q", s.at, s.thread, d.reason, d.data)
			}
		}
	}
}

// fate follows an event of a thread from its place on: where it has to be now; gone: it went with its thread, or its
// session. unsure: an operation with a condition came behind it, of which nobody can tell from outside whether it was done.
func (v *verdicts) fate(t events.Thread, at uint64) (now events.Thread, gone, unsure bool) {
	for _, p := range v.ops[t.Session] {
		switch {
		case p.at <= at:
		case p.op.Op == events.OpDelete && p.op.Delete.UnchangedSince > 0:
			unsure = true
		case p.op.Op == events.OpDelete, p.op.Op == events.OpRemove && p.t == t:
			return t, true, unsure
		case p.op.Op == events.OpRename && p.t == t:
			t.Name = p.op.Rename.To
		}
	}
	return t, false, unsure
}

// export writes every thread and gives what each has, by SESSION/THREAD.
func (a *attack) export(name string) map[string][]byte {
	var dir, out string
	code := 1
	for try := 0; try < 5 && code != 0; try++ { // retention takes sessions away
		dir = filepath.Join(a.t.TempDir(), name)
		out, code = a.w.tool(2*time.Minute, "export", "--all", dir)
	}
	if code != 0 {
		a.t.Errorf("export: exit code %d\n%.3000s", code, out)
	}
	all := map[string][]byte{}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		all[strings.TrimSuffix(rel, ".jsonl")], err = os.ReadFile(path)
		return err
	})
	return all
}

// threads reads exports: bytes, order, and whose each entry is.
func (v *verdicts) threads(exports map[string][]byte) {
	for t, text := range exports {
		session, _, _ := strings.Cut(t, "/")
		v.there[session] = true
		last := map[string]name{}
		once := map[string]bool{}
		for line := range bytes.Lines(text) {
			e := v.a.l.byID[idIn(line)]
			if e == nil {
				continue // an operation's, or a prompt
			}
			if !bytes.Equal(bytes.TrimSuffix(line, []byte("\n")), e.body) {
				v.a.t.Errorf("%s: %s has other bytes: %.200q, want %.200q", t, e.id, line, e.body)
			}
			if once[e.id] {
				v.a.t.Errorf("%s has %s twice", t, e.id)
			}
			once[e.id] = true
			was, n := last[e.name.producer+e.name.thread.String()], e.name
			if was.epoch > n.epoch || was.epoch == n.epoch && was.seq >= n.seq {
				v.a.t.Errorf("%s: %s (%d/%d) of %s comes behind %d/%d", t, e.id, n.epoch, n.seq, n.producer, was.epoch, was.seq)
			}
			last[e.name.producer+e.name.thread.String()] = e.name
			if v.owns(t, e) {
				v.found[e.id] = append(v.found[e.id], t)
			} else if !v.forked[session] {
				v.a.t.Errorf("%s has %s, which was published to %s, and is no fork", t, e.id, e.name.thread)
			}
		}
	}
}

// owns reports whether an entry that a thread has was published to it, and not to the one that it was forked from.
func (v *verdicts) owns(t string, e *entry) bool {
	return slices.ContainsFunc(v.places[e.name], func(at uint64) bool {
		now, gone, _ := v.fate(e.name.thread, at)
		return !gone && now.String() == t
	})
}

// entries holds every entry of the ledger against what was found.
func (v *verdicts) entries() {
	for _, id := range slices.Sorted(maps.Keys(v.a.l.byID)) {
		e := v.a.l.byID[id]
		if strings.HasPrefix(e.name.thread.Session, "ret-") && !v.there[e.name.thread.Session] {
			continue // retention goes on while this reads
		}
		if why := v.wrong(e); why != "" {
			v.a.t.Errorf("%s of %s, producer %s, epoch %d, seq %d, events %v of %d: %s", id, e.name.thread, e.name.producer,
				e.name.epoch, e.name.seq, v.places[e.name], v.tail.next-1, why)
		}
	}
}

// ends holds what clients were told of threads that take nothing more against the operations that make them so.
func (v *verdicts) ends() {
	for t := range v.a.l.ended {
		if v.a.l.closed[t] && slices.ContainsFunc(v.ops[t.Session], func(p placed) bool { return p.op.Op == events.OpDelete }) {
			continue // a deletion purges what this had not read yet
		}
		if !slices.ContainsFunc(v.ops[t.Session], func(p placed) bool {
			return p.op.Op == events.OpEnd && v.wasNamed(p, t) || p.op.Op == events.OpRename && p.t == t
		}) {
			v.a.t.Errorf("a client was told that %s takes nothing more, and nothing ended or renamed it", t)
		}
	}
}

// wasNamed reports whether the thread of an operation has ever had a name from then on.
func (v *verdicts) wasNamed(p placed, t events.Thread) bool {
	now := p.t
	for _, next := range v.ops[t.Session] {
		if now == t {
			return true
		}
		if next.at > p.at && next.op.Op == events.OpRename && next.t == now {
			now.Name = next.op.Rename.To
		}
	}
	return now == t
}

// wrong says what is wrong with an entry; "": nothing.
func (v *verdicts) wrong(e *entry) string {
	at, found, dead := v.places[e.name], v.found[e.id], 0
	for _, p := range at {
		if v.refused(p, e.name.seq) {
			dead++
		}
	}
	switch kept := v.mustBe(e, at); {
	case len(found) > 1:
		return fmt.Sprintf("it is in %v", found)
	case len(found) == 1 && dead == len(at) && dead > 0: // a copy that comes behind a rename may be refused
		return fmt.Sprintf("it is in %v, and a dead letter: %v", found, v.letters[at[0]])
	case len(found) == 1 && len(at) == 1 && v.goneFor(e, at[0]):
		return fmt.Sprintf("it went with its thread or session, and is in %v", found)
	case e.acked.Load() && kept && len(found) == 0 && dead == 0:
		return "LOST: acked, and nowhere"
	}
	return ""
}

// goneFor reports whether an entry that was stored there was removed, for certain.
func (v *verdicts) goneFor(e *entry, at uint64) bool {
	_, gone, unsure := v.fate(e.name.thread, at)
	return gone && !unsure
}

// mustBe reports whether nothing removed an entry that was stored at these places.
func (v *verdicts) mustBe(e *entry, at []uint64) bool {
	if len(at) == 0 { // dropped with its session before it could be read
		return !slices.ContainsFunc(v.ops[e.name.thread.Session], func(p placed) bool { return p.op.Op == events.OpDelete })
	}
	for _, p := range at { // one that was stored on both sides of a removal may be there or not
		if _, gone, unsure := v.fate(e.name.thread, p); gone || unsure {
			return false
		}
	}
	return true
}

// page is an answer of …/items.
type page struct {
	Items []struct {
		N    int64 `json:"n"`
		Item struct {
			Source  string `json:"source"`
			Content []struct {
				Text string `json:"text"`
			} `json:"content"`
			Metadata struct {
				Type   string `json:"type"`
				Prompt struct {
					ID string `json:"id"`
				} `json:"prompt"`
				Resolution struct {
					By string `json:"by"`
				} `json:"resolution"`
				Tool struct {
					Output string `json:"output"`
				} `json:"tool"`
			} `json:"metadata"`
		} `json:"item"`
	} `json:"items"`
}

// reader is an agent that only asks.
func (a *attack) reader() *agent { return &agent{a: a, http: httpClient()} }

// read is a GET that must succeed.
func (a *attack) read(ctx context.Context, path string, into any) (body []byte) {
	code := 0
	for range 20 {
		if code, body = a.reader().ask(ctx, "GET", path, map[string]string{"Accept": "application/json"}, nil); code == 200 {
			if into != nil && json.Unmarshal(body, into) != nil {
				a.t.Errorf("GET %s: %.300q", path, body)
			}
			return body
		}
		pause(ctx, 100*time.Millisecond)
	}
	a.t.Errorf("GET %s: %d %.300s", path, code, body)
	return nil
}

// items reads all items of the calm threads, and of all others their numbers.
func (v *verdicts) items(ctx context.Context) {
	for _, session := range slices.Concat(calm, wild) {
		var list struct {
			Threads []struct {
				Thread string `json:"thread"`
				N      int64  `json:"n"`
			} `json:"threads"`
		}
		if code, _ := v.a.reader().ask(ctx, "GET", "/v1/sessions/"+session+"/threads", nil, nil); code == 404 {
			continue
		}
		v.a.read(ctx, "/v1/sessions/"+session+"/threads", &list)
		for _, t := range list.Threads {
			next := int64(1)
			for next <= t.N {
				var p page
				path := "/v1/sessions/" + session + "/threads/" + t.Thread + "/items?limit=500&from=" + fmt.Sprint(next)
				if v.a.read(ctx, path, &p); len(p.Items) == 0 {
					v.a.t.Errorf("%s/%s: no item %d of %d", session, t.Thread, next, t.N)
					break
				}
				for _, it := range p.Items {
					must.Same(v.a.t, it.N, next, "%s/%s: item %d where %d is expected", session, t.Thread)
					next = it.N + 1
				}
				v.settled(session+"/"+t.Thread, p)
			}
		}
	}
	v.stream(ctx)
}

// settled holds the items of calm threads against outputs and prompts.
func (v *verdicts) settled(t string, p page) {
	for _, it := range p.Items {
		v.found["item "+t+" "+it.Item.Source] = append(v.found["item "+t+" "+it.Item.Source], it.Item.Metadata.Tool.Output)
		if it.Item.Metadata.Type == "pending_prompt_resolved" {
			id := "prompt " + t + " " + it.Item.Metadata.Prompt.ID
			v.found[id] = append(v.found[id], it.Item.Metadata.Resolution.By)
		}
	}
}

// stream reads SPOOL_ITEMS as a subscriber does: in each life of a name the numbers have no gap.
func (v *verdicts) stream(ctx context.Context) {
	last := map[string]int64{}
	for from := uint64(1); ; {
		m, err := nextMessage(ctx, v.tail.nc, events.ItemsStream, from)
		if err != nil || m == nil {
			if err != nil {
				v.a.t.Error(err)
			}
			return
		}
		from = m.Seq + 1
		parts := strings.Split(m.Subject, ".")
		h := nats.Header{}
		if len(m.Hdrs) > 0 {
			if h, err = nats.DecodeHeadersMsg(m.Hdrs); err != nil {
				v.a.t.Error(err)
			}
		}
		var it struct {
			N int64 `json:"n"`
		}
		if err := json.Unmarshal(m.Data, &it); err != nil {
			v.a.t.Errorf("item %d: %v", m.Seq, err)
		}
		key := parts[3] + "/" + parts[4] + "@" + h.Get("Spool-Life")
		if was, ok := last[key]; ok && it.N > was+1 {
			v.a.t.Errorf("SPOOL_ITEMS %d: item %d of %s comes behind %d", m.Seq, it.N, key, was)
		}
		last[key] = max(last[key], it.N)
	}
}

func (v *verdicts) prompts() {
	for _, p := range v.a.l.prompts {
		by := v.found["prompt "+p.thread.String()+" "+p.id]
		if len(by) > 1 || len(p.won) > 1 || len(p.won) == 1 && (len(by) != 1 || by[0] != p.won[0]) {
			v.a.t.Errorf("prompt %s of %s: %v were told that they answered it, the thread says %v", p.id, p.thread, p.won, by)
		}
	}
}

func (v *verdicts) outputs(ctx context.Context) {
	for _, o := range v.a.l.outputs {
		if !strings.HasPrefix(o.thread.Session, "calm") {
			continue
		}
		got := v.found["item "+o.thread.String()+" "+o.id]
		if len(got) > 1 || o.acked && len(got) != 1 {
			v.a.t.Errorf("output %s of %s has %d results", o.id, o.thread, len(got))
		} else if o.acked && got[0] != string(o.data) && len(o.data) <= 50_000 {
			v.a.t.Errorf("output %s of %s: %.100q, want %.100q", o.id, o.thread, got[0], o.data)
		} else if o.acked && len(o.data) > 70_000 {
			v.wholeOutput(ctx, o)
		}
	}
}

// wholeOutput finds the artifact of a large output, and reads it.
func (v *verdicts) wholeOutput(ctx context.Context, o *output) {
	var list struct {
		Artifacts []struct {
			ID   string `json:"artifact_id"`
			Size int    `json:"size"`
		} `json:"artifacts"`
	}
	v.a.read(ctx, "/v1/sessions/"+o.thread.Session+"/artifacts", &list)
	for _, f := range list.Artifacts {
		if f.Size == len(o.data) && bytes.Equal(v.a.read(ctx, "/v1/artifacts/"+f.ID, nil), o.data) {
			return
		}
	}
	v.a.t.Errorf("output %s of %s: no artifact has its %d bytes", o.id, o.thread, len(o.data))
}

func (v *verdicts) artifacts(ctx context.Context) {
	for _, f := range v.a.l.files {
		if got := v.a.read(ctx, "/v1/artifacts/"+f.id, nil); !bytes.Equal(got, f.data) {
			v.a.t.Errorf("artifact %s has %d bytes, want %d", f.id, len(got), len(f.data))
		}
	}
}
