package events_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"spool/internal/must"
	"spool/pkg/events"
)

// envelopes draws events that a publisher could make, with bytes in every text that are no UTF-8 too.
func envelopes() *rapid.Generator[events.Event] {
	return rapid.Custom(func(t *rapid.T) events.Event {
		text := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 40), func(b []byte) string { return string(b) }))
		e := events.Event{
			Producer: text.Draw(t, "producer"), Epoch: rapid.Uint64().Draw(t, "epoch"), Seq: rapid.Uint64().Draw(t, "seq"),
			Prev:    rapid.Uint64().Draw(t, "prev"),
			Kind:    events.Kind(rapid.Byte().Draw(t, "kind")),
			Dialect: text.Draw(t, "dialect"), Thread: events.Thread{Session: text.Draw(t, "session"), Name: text.Draw(t, "thread")},
			Time: rapid.Int64().Draw(t, "time"), User: text.Draw(t, "user"), Claimed: text.Draw(t, "claimed"),
			Host: text.Draw(t, "host"), File: text.Draw(t, "file"), Trace: text.Draw(t, "trace"),
		}
		if rapid.Bool().Draw(t, "captured") {
			e.Captured = &events.Captured{By: text.Draw(t, "by"), Home: text.Draw(t, "home"), Size: rapid.Int64Min(0).Draw(t, "bytes"),
				Modified: rapid.Int64().Draw(t, "modified")}
			copy(e.Captured.Sum[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "digest"))
		}
		if rapid.Bool().Draw(t, "claim check") {
			e.Ref = &events.BodyRef{Object: text.Draw(t, "object"), Size: rapid.Int64Min(0).Draw(t, "size")}
			copy(e.Ref.Sum[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "sum"))
		} else {
			e.Body = rapid.SliceOf(rapid.Byte()).Draw(t, "body")
		}
		return e
	})
}

// same compares events; a body without bytes is no body.
var same = cmp.Comparer(func(a, b []byte) bool { return bytes.Equal(a, b) })

func TestEnvelopeRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := envelopes().Draw(t, "event")
		got, err := events.Decode(e.Encode())
		if err != nil {
			t.Fatalf("Decode(Encode(%+v)) = %v, want nil", e, err)
		}
		if diff := cmp.Diff(e, got, same); diff != "" {
			t.Fatalf("Decode(Encode(e)) differs (-want +got):\n%s", diff)
		}
	})
}

// goldenEvent and goldenBytes are the vector of docs/format.md, "Envelope".
var goldenEvent = events.Event{
	Producer: "laptop:7", Epoch: 2, Seq: 300, Prev: 299, Kind: events.KindEntry, Dialect: "omp",
	Thread: events.Thread{Session: "s1", Name: "main"}, Time: 1_763_632_800_000, User: "u", Host: "h", Trace: "",
	Body: []byte(`{"a":1}`),
}

const goldenBytes = "9f" + // 15 members
	"01" + // version
	"a8" + "6c6170746f703a37" + // producer
	"02" + "cd012c" + "cd012b" + "01" + // epoch, seq, prev, kind
	"a3" + "6f6d70" + "a2" + "7331" + "a4" + "6d61696e" + // dialect, session, thread
	"cf0000019aa0b4e100" + // time
	"a1" + "75" + "a1" + "68" + "a0" + // user, host, trace
	"c407" + "7b2261223a317d" + // body
	"c0" // no claim check

func TestEnvelopeGolden(t *testing.T) {
	want := must.Get(hex.DecodeString(goldenBytes))(t)
	if got := goldenEvent.Encode(); !bytes.Equal(got, want) {
		t.Errorf("Encode(golden) = %x, want %x", got, want)
	}
	got := must.Get(events.Decode(want))(t)
	if diff := cmp.Diff(goldenEvent, got, same); diff != "" {
		t.Errorf("Decode(golden) differs (-want +got):\n%s", diff)
	}
}

// TestEnvelopeClaimGolden is the vector of an envelope whose body waits in the inbox.
func TestEnvelopeClaimGolden(t *testing.T) {
	e := goldenEvent
	e.Body, e.Ref = nil, &events.BodyRef{Object: "o", Size: 50 << 20}
	for i := range e.Ref.Sum {
		e.Ref.Sum[i] = byte(i)
	}
	head, _, _ := strings.Cut(goldenBytes, "c407")
	want := head + "c0" + // no body
		"93" + "a1" + "6f" + "ce03200000" + // object, size
		"c420" + "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
	must.Same(t, hex.EncodeToString(e.Encode()), want, "Encode(claim) = %s, want %s")
}

// TestDecodeTakesMoreMembers: a later minor version appends members, and this one ignores them.
func TestDecodeTakesMoreMembers(t *testing.T) {
	b := append([]byte{0xdc, 0, 20}, goldenEvent.Encode()[1:]...) // an array of 20
	b = append(b, 0x90, 0xa0, 0xa0, 0xc0, 0xa3, 'n', 'e', 'w')
	got := must.Get(events.Decode(b))(t)
	if diff := cmp.Diff(goldenEvent, got, same); diff != "" {
		t.Errorf("Decode(20 members) differs (-want +got):\n%s", diff)
	}
}

// withEpoch is the envelope with other bytes in the place of its epoch.
func withEpoch(b string) []byte {
	e := goldenEvent
	e.Epoch = 0x7b
	good := e.Encode()
	at := bytes.IndexByte(good, 0x7b)
	return slices.Concat(good[:at], []byte(b), good[at+1:])
}

// TestDecodeTakesWholeFloats: some languages write large numbers so.
func TestDecodeTakesWholeFloats(t *testing.T) {
	if e, err := events.Decode(withEpoch("\xcb\x41\xf0\x00\x00\x00\x00\x00\x00")); err != nil || e.Epoch != 1<<32 {
		t.Errorf("Decode(epoch 2^32 as a float) = %d, %v", e.Epoch, err)
	}
	if e, err := events.Decode(withEpoch("\xcf\xff\xff\xff\xff\xff\xff\xff\xff")); err != nil || e.Epoch != math.MaxUint64 {
		t.Errorf("Decode(epoch 2^64-1) = %d, %v", e.Epoch, err)
	}
}

// hostile are envelopes that must be refused, by what is wrong with them.
func hostile() map[string][]byte {
	good := goldenEvent.Encode()
	change := func(f func(b []byte) []byte) []byte { return f(bytes.Clone(good)) }
	return map[string][]byte{
		"epoch below 0":      withEpoch("\xff"),
		"epoch -2^63":        withEpoch("\xd3\x80\x00\x00\x00\x00\x00\x00\x00"),
		"epoch is no number": withEpoch("\xcb\x7f\xf8\x00\x00\x00\x00\x00\x01"),
		"epoch is infinite":  withEpoch("\xca\x7f\x80\x00\x00"),
		"epoch is 1.5":       withEpoch("\xca\x3f\xc0\x00\x00"),
		"epoch is 1e300":     withEpoch("\xcb\x7e\x37\xe4\x3c\x88\x00\x75\x9c"),
		"nothing":            {},
		"version 0":          change(func(b []byte) []byte { b[1] = 0; return b }),
		"version 2":          change(func(b []byte) []byte { b[1] = 2; return b }),
		"no array":           {0x01},
		"a map":              {0x81, 0x01, 0x01},
		"an empty array":     {0x90},
		"13 members":         change(func(b []byte) []byte { b[0] = 0x9d; return b[:len(b)-1] }),
		"cut off":            good[:len(good)-1],
		"bytes behind it":    change(func(b []byte) []byte { return append(b, 0xc0) }),
		"producer is a map":  change(func(b []byte) []byte { return append(append(b[:2:2], 0x80), b[11:]...) }),
		"huge array":         {0xdd, 0xff, 0xff, 0xff, 0xff},
		"huge string":        {0x9f, 0x01, 0xdb, 0xff, 0xff, 0xff, 0xff},
		"huge body":          change(func(b []byte) []byte { return append(b[:len(b)-10:len(b)-10], 0xc6, 0xff, 0xff, 0xff, 0xff) }),
		"deep nesting":       bytes.Repeat([]byte{0x91}, 10_000),
		"reserved byte":      {0xc1},
		"short claim":        change(func(b []byte) []byte { return append(b[:len(b)-1:len(b)-1], 0x92, 0xa1, 'o', 0x01) }),
		"claim, sum of 2":    change(func(b []byte) []byte { return append(b[:len(b)-1:len(b)-1], 0x93, 0xa1, 'o', 0x01, 0xc4, 2, 1, 2) }),
		"claim, size below 0": change(func(b []byte) []byte {
			return append(append(b[:len(b)-1:len(b)-1], 0x93, 0xa1, 'o', 0xff, 0xc4, 32), make([]byte, 32)...)
		}),
	}
}

func TestDecodeRefusesHostileBytes(t *testing.T) {
	for name, b := range hostile() {
		t.Run(name, func(t *testing.T) {
			if e, err := events.Decode(b); !errors.Is(err, events.ErrEnvelope) {
				t.Errorf("Decode(%x) = %+v, %v, want ErrEnvelope", b[:min(len(b), 64)], e, err)
			}
		})
	}
}

// FuzzDecode: no bytes crash the decoder, and what it takes it also writes.
func FuzzDecode(f *testing.F) {
	f.Add(goldenEvent.Encode())
	claim := goldenEvent
	claim.Body, claim.Ref = nil, &events.BodyRef{Object: "o", Size: 1}
	f.Add(claim.Encode())
	for _, b := range hostile() {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := events.Decode(b)
		if err != nil {
			if !errors.Is(err, events.ErrEnvelope) {
				t.Fatalf("Decode(%x) = %v, want ErrEnvelope", b, err)
			}
			return
		}
		again, err := events.Decode(e.Encode())
		if err != nil {
			t.Fatalf("Decode(Encode(%+v)) = %v, want nil", e, err)
		}
		if diff := cmp.Diff(e, again, same); diff != "" {
			t.Fatalf("Decode(Encode(e)) differs (-want +got):\n%s", diff)
		}
	})
}

// A dead letter's reason is for whoever wrote the event: it names a member and what belongs there, and nothing of a
// decoder.
func TestReasonsArePlain(t *testing.T) {
	parse := func(body string) error { _, err := events.ParseControl([]byte(body)); return err }
	envelope := (&events.Event{Producer: "p", Seq: 1, Kind: events.KindEntry, Dialect: "raw"}).Encode()
	at := bytes.IndexByte(envelope, 'p')
	_, chunk := events.ParseChunk([]byte{0x96, 1, 2, 0xa1, 'o', 0xa1, 'x', 1, 0xc4, 0})
	_, mixed := events.Decode(append(append(bytes.Clone(envelope[:at-1]), 0xc3), envelope[at+1:]...))
	for want, err := range map[string]error{
		"end.returnCode: want a whole number, not a string": parse(`{"op":"end","end":{"returnCode":"x"}}`),
		"want an object, not a list":                        parse(`[]`),
		"invalid JSON":                                      parse(`{"op":`),
		"value 5: want a whole number":                      chunk,
		"value 3: want a string":                            mixed,
	} {
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "msgpack:") ||
			strings.Contains(err.Error(), "Go ") {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
