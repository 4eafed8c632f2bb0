package artifacts_test

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"spool/internal/must"
	"spool/pkg/artifacts"
	"spool/pkg/events"
)

func row(id, session string) artifacts.Record {
	return artifacts.Record{
		ID: artifacts.ID(id), Session: session, Filename: "0.bash.log", Seq: "0", Size: 10, Category: artifacts.Normal,
		Writer: artifacts.FromOutput,
		Object: session + "/" + id + "/0.bash.log",
	}
}

func anyRecord(t *rapid.T) artifacts.Record {
	token := rapid.StringMatching(`[A-Za-z0-9_-]{1,20}`)
	text := rapid.String()
	return artifacts.Record{
		ID: artifacts.ID(token.Draw(t, "id")), Session: token.Draw(t, "session"), Created: rapid.Int64().Draw(t, "created"),
		Seq: artifacts.Seq(rapid.StringMatching(`|0|[1-9][0-9]{0,25}`).Draw(t, "seq")), Agent: text.Draw(t, "agent"), Run: text.Draw(t, "run"),
		Node: text.Draw(t, "node"), ToolCall: text.Draw(t, "call"), Filename: rapid.StringMatching(`[a-z\\ .]{0,9}[a-z]`).Draw(t, "file"),
		MIME: text.Draw(t, "mime"), Size: rapid.Int64Min(-1).Draw(t, "size"), Summary: text.Draw(t, "summary"),
		Category:   rapid.SampledFrom([]artifacts.Category{artifacts.Normal, artifacts.Debug, artifacts.HookLog}).Draw(t, "category"),
		Writer:     rapid.SampledFrom([]artifacts.Writer{artifacts.FromAgent, artifacts.FromFile}).Draw(t, "writer"),
		ForkedFrom: artifacts.ID(text.Draw(t, "from")), Object: text.Draw(t, "object"),
		Locator: rapid.SliceOfN(rapid.Byte(), 1, 20).Draw(t, "locator"),
	}
}

func TestRecordRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := anyRecord(t)
		got, err := artifacts.DecodeRecord(r.Encode())
		if err != nil || !reflect.DeepEqual(got, r) {
			t.Fatalf("DecodeRecord(Encode(%+v)) = %+v, %v", r, got, err)
		}
	})
}

func TestDecodeRecordIgnoresLaterMembers(t *testing.T) {
	b := row("art_1", "s").Encode()
	if b[0] != 0xdc || b[2] != 18 { // array16 of 18
		t.Fatalf("Encode begins %x", b[:3])
	}
	b[2]++
	if got, err := artifacts.DecodeRecord(append(b, 0xc0)); err != nil || got.ID != "art_1" {
		t.Errorf("DecodeRecord of 19 members = %v, %v", got, err)
	}
	b[2] -= 2
	must.Is(t, must.Err(artifacts.DecodeRecord(b)), artifacts.ErrRecord, "DecodeRecord of 17 members")
}

// A record has what is known of a registered file, and one that an earlier version wrote has nothing of it.
func TestRecordOfAFile(t *testing.T) {
	r := row("art_1", "s")
	r.Writer, r.Object = artifacts.FromFile, "file://host/tmp/x"
	earlier := must.Get(artifacts.DecodeRecord(r.Encode()))(t)
	if earlier.Digest != nil || earlier.Modified != 0 {
		t.Errorf("an earlier record has the digest %x, time %d", earlier.Digest, earlier.Modified)
	}
	r.Modified, r.Digest = 5, []byte("digest")
	if got := must.Get(artifacts.DecodeRecord(r.Encode()))(t); got.Modified != 5 || string(got.Digest) != "digest" {
		t.Errorf("DecodeRecord = %d, %q, want 5 and the digest", got.Modified, got.Digest)
	}
}

func TestDecodeRecordRefuses(t *testing.T) {
	good := row("art_1", "s")
	for name, change := range map[string]func(*artifacts.Record){
		"id":       func(r *artifacts.Record) { r.ID = "a/b" },
		"session":  func(r *artifacts.Record) { r.Session = "" },
		"filename": func(r *artifacts.Record) { r.Filename = "../x" },
		"seq":      func(r *artifacts.Record) { r.Seq = "007" },
		"category": func(r *artifacts.Record) { r.Category = "other" },
		"writer":   func(r *artifacts.Record) { r.Writer = "" },
		"size":     func(r *artifacts.Record) { r.Size = -2 },
	} {
		r := good
		change(&r)
		must.Is(t, must.Err(artifacts.DecodeRecord(r.Encode())), artifacts.ErrRecord, "%s: DecodeRecord", name)
	}
	r := good
	r.Session, r.Seq, r.Size = "", "x", -5
	if err := r.Validate(); !errors.Is(err, events.ErrToken) || !strings.Contains(err.Error(), "seq") ||
		!strings.Contains(err.Error(), "size") {
		t.Errorf("Validate = %v, want all three faults", err)
	}
	b := good.Encode()
	for _, bad := range [][]byte{nil, {0xc0}, b[:len(b)-1], append(b, 0), bytes.Replace(b, []byte{1}, []byte{2}, 1)} {
		must.Is(t, must.Err(artifacts.DecodeRecord(bad)), artifacts.ErrRecord, "DecodeRecord(%x)", bad)
	}
}

// TestForkKeepsBytes holds SPEC A7: a fork has its own row with the same number, over the same bytes.
func TestForkKeepsBytes(t *testing.T) {
	a := row("art_1", "s")
	b := a.Fork("fork", "art_2", 77)
	if b.ID != "art_2" || b.Session != "fork" || b.Seq != a.Seq || b.ForkedFrom != a.ID || b.Object != a.Object || b.Created != 77 {
		t.Errorf("Fork = %+v", b)
	}
}

func FuzzDecodeRecord(f *testing.F) {
	f.Add(row("art_1", "s").Encode())
	f.Add([]byte("\xdc\x00\x12\x01\xdb\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := artifacts.DecodeRecord(b)
		if err != nil {
			if !errors.Is(err, artifacts.ErrRecord) {
				t.Fatalf("DecodeRecord(%x) = %v, want ErrRecord", b, err)
			}
			return
		}
		again, err := artifacts.DecodeRecord(r.Encode())
		if err != nil || !bytes.Equal(again.Encode(), r.Encode()) {
			t.Fatalf("a decoded record does not survive: %+v, %+v, %v", r, again, err)
		}
	})
}

func TestRef(t *testing.T) {
	for want, r := range map[string]artifacts.Ref{
		`{"type":"artifact_ref","artifact_id":"art_1","summary":"a \"b\"\n","mime_type":"text/plain"}`: {
			ID: "art_1", Summary: "a \"b\"\n", MIME: "text/plain",
		},
		`{"type":"artifact_ref","artifact_id":"art_1","summary":null,"mime_type":null}`: {ID: "art_1"},
	} {
		must.Same(t, string(r.JSON()), want, "JSON = %s, want %s")
	}
}
