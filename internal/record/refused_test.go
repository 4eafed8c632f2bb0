package record_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"spool/internal/must"
	"spool/internal/record"
	"spool/pkg/events"
)

func TestRefused(t *testing.T) {
	event := rapid.Custom(func(t *rapid.T) record.RefusedEvent {
		return record.RefusedEvent{
			Seq: rapid.Uint64Range(1, 1<<40).Draw(t, "seq"), Index: rapid.IntRange(record.WholeMessage, 5).Draw(t, "index"),
			Stored:  rapid.Int64Range(0, 1<<61).Draw(t, "stored"),
			Session: record.SessionMark(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "session")),
			Reason:  rapid.SampledFrom([]string{"", "why", "because", "wörter"}).Draw(t, "reason"),
			Unread:  rapid.Bool().Draw(t, "unread"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		r := record.Refused{Top: rapid.Uint64().Draw(t, "top") >> 1, Latest: rapid.Int64().Draw(t, "latest"),
			Events: rapid.SliceOf(event).Draw(t, "events")}
		r.Batch[3] = 7
		for _, seq := range rapid.SliceOf(rapid.Uint64()).Draw(t, "nowhere") {
			r.Nowhere = append(r.Nowhere, record.IdentityOf(&events.Event{Seq: seq}, seq%3))
		}
		got := must.Get(record.DecodeRefused(r.Encode(1 << 20)))(t)
		slices.SortStableFunc(r.Events, func(a, b record.RefusedEvent) int { return int(a.Seq) - int(b.Seq) })
		if got.Batch != r.Batch || got.Top != r.Top || got.Latest != r.Latest || len(got.Events) != len(r.Events) ||
			!slices.Equal(got.Nowhere, r.Nowhere) {
			t.Fatalf("DecodeRefused(Encode()) = %+v, want %+v", got, r)
		}
		for _, e := range r.Events {
			if !slices.Contains(got.Events, e) {
				t.Fatalf("DecodeRefused(Encode()) = %+v, without %+v", got, e)
			}
		}
	})
}

// The value fits the room that it is given, whatever the reasons; all events are in it.
func TestRefusedFits(t *testing.T) {
	var r record.Refused
	for i := range 1000 {
		r.Events = append(r.Events, record.RefusedEvent{
			Seq: uint64(i)<<40 + 1, Index: i % 300, Stored: int64(i%2) << 62, Session: record.SessionMark(strings.Repeat("s", i)),
			Reason: strings.Repeat("ö", 100+i), Unread: true,
		})
	}
	for _, limit := range []int{1 << 20, 400_000, 100_000, 1000 * record.RefusedBytes} {
		b := r.Encode(limit)
		got, err := record.DecodeRefused(b)
		if err != nil || len(b) > limit || len(got.Events) != len(r.Events) {
			t.Errorf("Encode(%d) = %d bytes with %d events, %v, want all %d", limit, len(b), len(got.Events), err, len(r.Events))
		}
	}
}

func FuzzRefused(f *testing.F) {
	f.Add(record.Refused{Events: []record.RefusedEvent{{Seq: 1, Reason: "why", Unread: true}}}.Encode(1000))
	f.Add(record.Refused{Nowhere: []record.Identity{{1}, {2}}}.Encode(1000))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := record.DecodeRefused(b)
		if err != nil {
			return
		}
		again, err := record.DecodeRefused(r.Encode(1 << 30))
		if err != nil || len(again.Events) != len(r.Events) {
			t.Errorf("Decode(Encode(%+v)) = %+v, %v", r, again, err)
		}
	})
}
