package gc

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

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
	p, err := c.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Condemn) != 3 || p.Condemn[0].Key != packKey(top.Pack) || p.Condemn[1].Key != packKey(bottom.Pack) || p.Condemn[2].Key != blobKey(blob.Sum()) {
		t.Fatalf("plan condemns %+v, want the referrers before what they refer to", p.Condemn)
	}
	touched := f.recs[packKey(top.Pack)]
	f.put(touched.Key, touched.Value)
	d, err := c.Apply(t.Context(), p)
	if err != nil || d.Condemned != 0 || d.Spared != 3 {
		t.Errorf("Apply() = %+v, %v, want all three spared", d, err)
	}
	for _, l := range []casstore.Located{top, bottom} {
		if err := f.lives(l); err != nil {
			t.Errorf("%s: %v", l, err)
		}
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
	p, err := record.DecodePack(was.Value)
	if err != nil {
		t.Fatal(err)
	}
	p.Order = was.Seq
	delete(f.recs, was.Key)
	to := packID(9)
	f.put(packKey(to), p.Encode())
	f.put(events.MovedKey(bottom.Pack.String()), record.Moved{To: to}.Encode())
	c := f.collector(Config{Allow: []Brake{BrakeShare}})
	plan, err := c.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(plan.Condemn) != 3 || len(plan.Forget) != 1 {
		t.Fatalf("plan = %+v, want three condemned and the moved record forgotten", plan.Sum())
	}
	touched := f.recs[packKey(top.Pack)]
	f.put(touched.Key, touched.Value)
	if d, err := c.Apply(t.Context(), plan); err != nil || d.Spared != 3 || d.Forgotten != 0 {
		t.Errorf("Apply() = %+v, %v, want all three spared and nothing forgotten", d, err)
	}
	if err := f.lives(bottom); err != nil {
		t.Errorf("%s: %v", bottom, err)
	}
}

// Clocks decide nothing: with every record a day older or younger than it is, the plan is the same (DESIGN 9).
func TestNoClock(t *testing.T) {
	plan := func(age time.Duration) *Plan {
		f := newFake(t)
		chain(f)
		f.upload([]byte("waste"))
		f.age = age
		p, err := f.collector(Config{}).Plan(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	want := plan(0)
	if len(want.Condemn) == 0 || len(want.Reclaim) == 0 {
		t.Fatalf("plan = %+v, want something to do", want.Sum())
	}
	for _, age := range []time.Duration{-24 * time.Hour, 24 * time.Hour} {
		if diff := cmp.Diff(want, plan(age), cmpopts.IgnoreUnexported(Plan{}), cmpopts.IgnoreFields(Plan{}, "Cycle")); diff != "" {
			t.Errorf("with everything %v old the plan differs:\n%s", age, diff)
		}
	}
}

// No file that plans or applies asks what time it is.
func TestNobodyAsksTheTime(t *testing.T) {
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name := file.Name()
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || name == "measure.go" {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok {
				if id, ok := sel.X.(*ast.Ident); ok && id.Name == "time" && (sel.Sel.Name == "Now" || sel.Sel.Name == "Since" || sel.Sel.Name == "Until") {
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
	c, err := New(Deps{Records: rs, Bulk: rs, Queue: rs, Memory: rs}, Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.read(t.Context(), newWorld()); err != nil {
		t.Fatalf("read = %v, want nil", err)
	}
	rs.blind = true
	if _, err := c.read(t.Context(), newWorld()); !errors.Is(err, record.ErrBusy) {
		t.Errorf("read of what was = %v, want %v", err, record.ErrBusy)
	}
}
