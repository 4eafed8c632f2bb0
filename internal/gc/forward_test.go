package gc_test

import (
	"bytes"
	"fmt"
	"testing"

	"spool/internal/must"
	"spool/pkg/casstore"
	"spool/pkg/client"
)

// A repack keeps what a later version has written into a node, byte for byte, also what it does not
// know.
func TestRepackKeepsWhatItDoesNotKnow(t *testing.T) {
	r := newRig(t)
	r.persister(0)
	later := casstore.Node{Type: "later", Payload: casstore.AppendText(nil, []byte("of another year")),
		Extra: []byte("\xa3new\x92\x01\xa3two")}
	b := casstore.NewPackBuilder()
	at := casstore.Located{Ref: b.AddNode(&later), Pack: casstore.PackID{1, 2, 3}}
	header, body := must.Two(b.Finish())(t)
	must.Do(t, r.conn.Store(0).PutPack(t.Context(), at.Pack, header, body))
	step := fmt.Appendf(nil, `{"role":"coder","content":"see there","refs":[%q]}`, at)
	must.Get(r.producer.Publish(t.Context(), client.Entry{Thread: th("keep"), Dialect: "step", Body: step, Seq: 1}))(t)
	r.seq = 1
	r.await(th("keep"))
	for i := range 5 { // small neighbours
		body := fmt.Appendf(nil, `{"role":"coder","content":"step %d"}`, i)
		r.seq++
		must.Get(r.producer.Publish(t.Context(), client.Entry{Thread: th("keep"), Dialect: "step", Body: body, Seq: r.seq}))(t)
		r.await(th("keep"))
	}
	if _, done := r.collect(brave()); done.Repacked < 4 {
		t.Fatalf("Apply = %+v, want a repack", done)
	}
	if now, err := r.conn.Records().FindPack(t.Context(), at.Pack); err != nil || now.ID == at.Pack {
		t.Fatalf("the pack is %s, %v, want it moved", now.ID, err)
	}
	p := must.Get(r.conn.Store(0).Pack(t.Context(), at.Pack))(t)
	n, err := p.Node(at.Ref)
	if err != nil || !bytes.Equal(n.Extra, later.Extra) || !bytes.Equal(n.AppendTo(nil), later.AppendTo(nil)) {
		t.Errorf("node = %+v, %v, want it as it was", n, err)
	}
	r.verify(th("keep"))
}
