package natsio_test

import (
	"testing"

	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/record"
	"spool/pkg/casstore"
	"spool/pkg/casstore/storetest"
	"spool/pkg/events"
)

// handled is a store whose records a test can change as a repack, a collector or a bad disk would.
type handled struct {
	*natsio.Store
	t *testing.T
	c *natsio.Conn
}

func (h handled) record(key string) []byte {
	h.t.Helper()
	rs, err := h.c.Records().Records(h.t.Context(), key)
	if err != nil || !rs[0].Exists() {
		h.t.Fatalf("record %s = %+v, %v", key, rs, err)
	}
	return rs[0].Value
}

func (h handled) write(key string, value []byte) {
	h.t.Helper()
	must.Get(h.c.Records().Write(h.t.Context(), record.Put{Key: key, Value: value, Expect: record.Any}))(h.t)
}

// damaged is an object like that one but for a bit of its last byte.
func (h handled) damaged(o record.Object) record.Object {
	h.t.Helper()
	b := must.Get(h.c.Objects().Read(h.t.Context(), o))(h.t)
	b[len(b)-1] ^= 1
	bad := must.Get(h.c.Objects().Upload(h.t.Context(), o.Bucket, o.Name+".damaged", [][]byte{b}))(h.t)
	return bad
}

func (h handled) pack(id casstore.PackID) (key string, p record.Pack) {
	h.t.Helper()
	key = events.PackKey(id.String())
	p = must.Get(record.DecodePack(h.record(key)))(h.t)
	return key, p
}

func (h handled) CorruptPack(id casstore.PackID) {
	key, p := h.pack(id)
	p.Object = h.damaged(p.Object)
	h.write(key, p.Encode())
}

func (h handled) CorruptBlob(ref casstore.Ref) {
	key := events.BlobKey(ref.Hex())
	b := must.Get(record.DecodeBlob(h.record(key)))(h.t)
	b.Object = h.damaged(b.Object)
	h.write(key, b.Encode())
}

func (h handled) MovePack(from, to casstore.PackID) {
	h.write(events.MovedKey(from.String()), record.Moved{To: to}.Encode())
	h.RemovePack(from)
}

func (h handled) RemovePack(id casstore.PackID) {
	key, p := h.pack(id)
	p.Gone = true
	h.write(key, p.Encode())
}

func TestStoreConforms(t *testing.T) {
	c := natstest.Conn(t)
	storetest.Run(t, func(t *testing.T) storetest.Store {
		// One server for all: what the tests put under fixed names must not be there from another one.
		for id := byte(1); id <= 9; id++ {
			pack := casstore.PackID{id}.String()
			must.Get(c.Records().Write(t.Context(), record.Put{Key: events.PackKey(pack), Value: record.Pack{Gone: true}.Encode(),
				Expect: record.Any}))(t)
		}
		return handled{c.Store(3), t, c}
	})
}
