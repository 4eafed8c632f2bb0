package gc

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"spool/internal/must"
	"spool/internal/record"
	"spool/pkg/casstore"
	"spool/pkg/events"
)

// chain stores h → a → blob, in a pack each, and a head of another pack; what it returns is garbage.
func chain(f *fake) (top, bottom casstore.Located, blob casstore.Ref) {
	blob = f.blob([]byte("blob"))
	add := func(id int, refs ...casstore.Located) casstore.Located {
		b := casstore.NewPackBuilder()
		n := casstore.Node{Type: "content", Payload: casstore.AppendInt(nil, int64(id))}
		for _, l := range refs {
			n.Refs = append(n.Refs, l.Ref)
			b.Locate(l)
		}
		l := casstore.Located{Ref: b.AddNode(&n), Pack: packID(id)}
		f.pack(l.Pack, b)
		return l
	}
	bottom = add(1, casstore.Located{Ref: blob})
	top = add(2, bottom)
	f.head("thread.s.t", casstore.Located{}, add(3))
	return top, bottom, blob
}

// A record that somebody takes up again after the plan was made is spared with all that it leads to.
func TestSpare(t *testing.T) {
	f := newFake(t)
	top, bottom, blob := chain(f)
	c := f.collector(Config{Allow: []Brake{BrakeShare}})
	p := must.Get(c.Plan(t.Context()))(t)
	if len(p.Condemn) != 3 || p.Condemn[0].Key != packKey(top.Pack) || p.Condemn[1].Key != packKey(bottom.Pack) ||
		p.Condemn[2].Key != blobKey(blob.Sum()) {
		t.Fatalf("plan condemns %+v, want the referrers before what they refer to", p.Condemn)
	}
	touched := f.recs[packKey(top.Pack)]
	f.put(touched.Key, touched.Value)
	d, err := c.Apply(t.Context(), p)
	if err != nil || d.Condemned != 0 || d.Spared != 3 {
		t.Errorf("Apply() = %+v, %v, want all three spared", d, err)
	}
	for _, l := range []casstore.Located{top, bottom} {
		must.Is(t, f.lives(l), nil, "%s", l)
	}
	if b, err := record.DecodeBlob(f.recs[blobKey(blob.Sum())].Value); err != nil || b.Gone {
		t.Errorf("the blob's record is %+v, %v, want it live", b, err)
	}
}

// What is spared may know packs by the names that they had before they moved, which nothing else follows.
func TestSpareKeepsNames(t *testing.T) {
	f := newFake(t)
	top, bottom, _ := chain(f)
	was := f.recs[packKey(bottom.Pack)]
	p := must.Get(record.DecodePack(was.Value))(t)
	p.Order = was.Seq
	delete(f.recs, was.Key)
	to := packID(9)
	f.put(packKey(to), p.Encode())
	f.put(events.MovedKey(bottom.Pack.String()), record.Moved{To: to}.Encode())
	c := f.collector(Config{Allow: []Brake{BrakeShare}})
	plan := must.Get(c.Plan(t.Context()))(t)
	if len(plan.Condemn) != 3 || len(plan.Forget) != 1 {
		t.Fatalf("plan = %+v, want three condemned and the moved record forgotten", plan.Sum(0))
	}
	touched := f.recs[packKey(top.Pack)]
	f.put(touched.Key, touched.Value)
	if d, err := c.Apply(t.Context(), plan); err != nil || d.Spared != 3 || d.Forgotten != 0 {
		t.Errorf("Apply() = %+v, %v, want all three spared and nothing forgotten", d, err)
	}
	must.Is(t, f.lives(bottom), nil, "%s", bottom)
}

// deaf is a store that does not answer so many reads of bytes.
type deaf struct {
	*fake
	times int
	at    func() // before a read of bytes; nil: nothing
}

func (d *deaf) ReadChunks(ctx context.Context, o record.Object, limit int, tell func([]byte) error) error {
	if d.at != nil {
		d.at()
	}
	if d.times--; d.times >= 0 {
		return fmt.Errorf("%w: %w", record.ErrUnknown, context.DeadlineExceeded)
	}
	return d.fake.ReadChunks(ctx, o, limit, tell)
}

func (d *deaf) collector(cfg Config) *Collector {
	c := d.fake.collector(cfg)
	c.Bulk = d
	return c
}

// Who spares a pack reads what it leads to. That the server does not answer, or that a newer cycle took the bytes, says
// nothing of them.
func TestSpareOfWhatIsNotRead(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	for name, c := range map[string]struct {
		ctx    context.Context
		meddle func(d *deaf, top record.Pack)
		want   error // nil: all three are spared
	}{
		"answered later": {t.Context(), func(d *deaf, _ record.Pack) { d.times = 3 }, nil},
		"never answered": {ended, func(d *deaf, _ record.Pack) { d.times, d.at = 1<<30, end }, context.Canceled},
		"newer cycle": {t.Context(), func(d *deaf, top record.Pack) {
			d.at = func() { must.Get(d.Fences(t.Context()))(t); delete(d.objects, top.Object.NUID) }
		}, ErrStale},
		"lost": {t.Context(), func(d *deaf, top record.Pack) { delete(d.objects, top.Object.NUID) }, ErrUnsafe},
	} {
		t.Run(name, func(t *testing.T) {
			d := &deaf{fake: newFake(t)}
			top, _, _ := chain(d.fake)
			collector := d.collector(Config{Allow: []Brake{BrakeShare}})
			plan := must.Get(collector.Plan(t.Context()))(t)
			touched := d.recs[packKey(top.Pack)]
			d.put(touched.Key, touched.Value)
			c.meddle(d, must.Get(record.DecodePack(touched.Value))(t))
			done, err := collector.Apply(c.ctx, plan)
			if !errors.Is(err, c.want) || errors.Is(err, ErrUnsafe) != errors.Is(c.want, ErrUnsafe) {
				t.Errorf("Apply() = %v, want %v", err, c.want)
			}
			if c.want == nil && done.Spared != 3 {
				t.Errorf("Apply() = %+v, want all three spared", done)
			}
		})
	}
}

// A newer cycle may take what a thread had that went since the reading: who marks then is late, and nothing is wrong.
func TestMarkingBesideANewerCycle(t *testing.T) {
	d := &deaf{fake: newFake(t)}
	top, _, _ := chain(d.fake)
	d.head("thread.s.t", casstore.Located{}, top)
	d.at = func() { must.Get(d.Fences(t.Context()))(t); clear(d.objects) }
	_, err := d.collector(Config{}).Plan(t.Context())
	if !errors.Is(err, ErrStale) || errors.Is(err, ErrUnsafe) {
		t.Errorf("Plan beside a newer cycle = %v, want %v", err, ErrStale)
	}
	d.at = nil
	must.Is(t, must.Err(d.collector(Config{}).Plan(t.Context())), ErrUnsafe, "Plan without the bytes")
}

// Clocks decide nothing: with every record a day older or younger than it is, the plan is the same (DESIGN 9).
func TestNoClock(t *testing.T) {
	plan := func(age time.Duration) *Plan {
		f := newFake(t)
		chain(f)
		f.upload([]byte("waste"))
		f.age = age
		p := must.Get(f.collector(Config{}).Plan(t.Context()))(t)
		return p
	}
	want := plan(0)
	if len(want.Condemn) == 0 || len(want.Reclaim) == 0 {
		t.Fatalf("plan = %+v, want something to do", want.Sum(0))
	}
	for _, age := range []time.Duration{-24 * time.Hour, 24 * time.Hour} {
		if diff := cmp.Diff(want, plan(age), cmpopts.IgnoreUnexported(Plan{}), cmpopts.IgnoreFields(Plan{}, "Cycle")); diff != "" {
			t.Errorf("with everything %v old the plan differs:\n%s", age, diff)
		}
	}
}

// No file that plans or applies asks what time it is.
func TestNobodyAsksTheTime(t *testing.T) {
	files := must.Get(os.ReadDir("."))(t)
	for _, file := range files {
		name := file.Name()
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || name == "measure.go" {
			continue
		}
		f := must.Get(parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution))(t)
		ast.Inspect(f, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok {
				if id, ok := sel.X.(*ast.Ident); ok && id.Name == "time" &&
					(sel.Sel.Name == "Now" || sel.Sel.Name == "Since" || sel.Sel.Name == "Until") {
					t.Errorf("%s uses time.%s", name, sel.Sel.Name)
				}
			}
			return true
		})
	}
}

// cutOff is a record bucket of which a reader sees what was there before the fences of a cycle, as a server does that was cut off.
type cutOff struct {
	*fake
	blind bool
}

func (c *cutOff) Scan(ctx context.Context, from uint64, tell func(record.Stamped) error) (uint64, error) {
	if c.blind {
		return from, nil
	}
	return c.fake.Scan(ctx, from, tell)
}

// A cycle that reads what was before its own fences ends: the server that answers is behind, and does not see what is referred to since.
func TestReadingBehindTheFences(t *testing.T) {
	rs := &cutOff{fake: newFake(t)}
	c := must.Get(New(Deps{Records: rs, Bulk: rs, Streams: rs, Queue: rs, Memory: rs, MaxPayload: rs.MaxPayload}, Config{}))(t)
	must.Get(c.read(t.Context(), newWorld()))(t)
	rs.blind = true
	must.Is(t, must.Err(c.read(t.Context(), newWorld())), record.ErrBusy, "read of what was")
}

// torn does not tell of the moved records, as a server might that has taken in a part of what it missed.
type torn struct{ *fake }

func (c torn) Scan(ctx context.Context, from uint64, tell func(record.Stamped) error) (uint64, error) {
	return c.fake.Scan(ctx, from, func(r record.Stamped) error {
		if isMoved(r.Key) {
			return nil
		}
		return tell(r)
	})
}

func (c torn) EachName(context.Context, string, func(string)) error { return nil }

// unsaid does not say where a pack is.
type unsaid struct{ torn }

func (unsaid) FindPack(context.Context, casstore.PackID) (record.FoundPack, error) {
	return record.FoundPack{}, record.ErrUnknown
}

// A pack that the reading has not is asked for before it is told to be lost.
func TestLossIsConfirmed(t *testing.T) {
	f := newFake(t)
	top, bottom, _ := chain(f)
	f.head("thread.s.t", casstore.Located{}, top)
	p := must.Get(record.DecodePack(f.recs[packKey(bottom.Pack)].Value))(t)
	p.Order = f.recs[packKey(bottom.Pack)].Seq
	to := packID(9)
	f.put(packKey(to), p.Encode())
	f.put(events.MovedKey(bottom.Pack.String()), record.Moved{To: to}.Encode())
	p.Gone = true
	f.put(packKey(bottom.Pack), p.Encode())
	must.Get(f.collector(Config{}).Plan(t.Context()))(t)
	c := must.Get(New(Deps{Records: torn{f}, Bulk: f, Streams: f, Packs: f, Queue: f, Memory: f, MaxPayload: f.MaxPayload}, Config{}))(t)
	if _, err := c.Plan(t.Context()); !errors.Is(err, record.ErrBusy) || errors.Is(err, ErrUnsafe) ||
		!strings.Contains(err.Error(), to.String()) {
		t.Errorf("Plan of a reading without moved records = %v, want %v, and where the pack is", err, record.ErrBusy)
	}
	c.Records = unsaid{torn{f}}
	if _, err := c.Plan(t.Context()); !errors.Is(err, record.ErrUnknown) || errors.Is(err, ErrUnsafe) {
		t.Errorf("Plan of such a reading while nobody says where the pack is = %v, want %v", err, record.ErrUnknown)
	}
	c.Records = torn{f}
	delete(f.recs, events.MovedKey(bottom.Pack.String()))
	if _, err := c.Plan(t.Context()); !errors.Is(err, ErrDangling) || !strings.Contains(err.Error(), "tombstone") {
		t.Errorf("Plan without the pack = %v, want %v, and what was read of it", err, ErrDangling)
	}
}

// ahead tells the records as a server does that has taken in more than the leader: the second reading seems to end before a touch, and
// what that overwrites is left out.
type ahead struct {
	*fake
	scans int
	deaf  bool // every moment seems quiet
}

func (c *ahead) Scan(ctx context.Context, from uint64, tell func(record.Stamped) error) (uint64, error) {
	if c.scans++; c.scans != 2 {
		return c.fake.Scan(ctx, from, tell)
	}
	add := func(id int, refs ...casstore.Located) casstore.Located {
		b := casstore.NewPackBuilder()
		n := casstore.Node{Type: "content", Payload: casstore.AppendInt(nil, int64(id))}
		for _, l := range refs {
			n.Refs = append(n.Refs, l.Ref)
			b.Locate(l)
		}
		l := casstore.Located{Ref: b.AddNode(&n), Pack: packID(id)}
		c.pack(l.Pack, b)
		return l
	}
	below := add(11)
	c.head("thread.s.new", casstore.Located{}, add(12, below))
	p, err := record.DecodePack(c.recs[packKey(below.Pack)].Value)
	if err != nil {
		return 0, err
	}
	p.Order = c.recs[packKey(below.Pack)].Seq
	last := c.put(packKey(below.Pack), p.Encode()) - 1
	_, err = c.fake.Scan(ctx, from, func(r record.Stamped) error {
		if r.Seq > last {
			return nil
		}
		return tell(r)
	})
	return last, err
}

func (c *ahead) Quiet(ctx context.Context, last uint64) (bool, error) {
	if c.deaf {
		return true, nil
	}
	return c.fake.Quiet(ctx, last)
}

// A reading goes on until nothing is written behind it: what was told before is whole then, whoever told it.
func TestReadingEndsWhereItIsQuiet(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		f := newFake(t)
		chain(f)
		rs := &ahead{fake: f, deaf: deaf}
		c, err := New(Deps{Records: rs, Bulk: f, Streams: f, Packs: f, Queue: f, Memory: f, MaxPayload: f.MaxPayload}, Config{})
		must.Do(t, err)
		_, err = c.Plan(t.Context())
		switch {
		case !deaf && (err != nil || rs.scans != 3):
			t.Errorf("Plan = %v after %d readings, want nil after the third", err, rs.scans)
		case deaf && err == nil:
			t.Error("Plan that ends where it is not quiet = nil: this test shows nothing")
		}
	}
}
