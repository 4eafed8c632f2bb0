package quota

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"spool/internal/must"
)

func TestParseRate(t *testing.T) {
	for text, want := range map[string]Rate{
		"": {}, "200/s": {Entries: 200}, "4MiB/s": {Bytes: 4 << 20}, "200/s,4MiB/s": {200, 4 << 20}, "1kB, 5": {5, 1000},
	} {
		must.Same(t, must.Get(ParseRate(text))(t), want, "ParseRate(%q) = %v, want %v", text)
	}
	for _, text := range []string{"x", "0", "-1/s", "1/s,", "1/min", " "} {
		if r, err := ParseRate(text); err == nil {
			t.Errorf("ParseRate(%q) = %v, want an error", text, r)
		}
	}
}

// Nobody gets more than a second and one more take ahead of its rate; who comes again when it is told to is let in; what
// is refused is not taken, and who has paid is forgotten.
func TestNobodyIsAhead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.Int64Range(1, 50).Draw(t, "rate")
		l := New(Rates{Session: Rate{Entries: rate}})
		l.sweep = 1
		start := time.Unix(1, 0)
		now, taken, largest := start, int64(0), int64(0)
		for range rapid.IntRange(1, 60).Draw(t, "takes") {
			now = now.Add(time.Duration(rapid.Int64Range(0, 2000).Draw(t, "ms")) * time.Millisecond)
			use := Use{Session: "s", Entries: rapid.Int64Range(0, 200).Draw(t, "n")}
			_, err := l.Take(now, 0, use)
			var beyond *Refused
			if errors.As(err, &beyond) {
				if beyond.Quota != "session_entries" || beyond.Limit != rate || beyond.Seconds() < 1 {
					t.Fatalf("refused: %+v", beyond)
				}
				now = now.Add(beyond.After)
				_, err = l.Take(now, 0, use)
			}
			if err != nil {
				t.Fatalf("after what it was told: %v", err)
			}
			taken, largest = taken+use.Entries, max(largest, use.Entries)
			if may := float64(rate)*(now.Sub(start)+ahead).Seconds() + float64(largest) + 1; float64(taken) > may {
				t.Fatalf("%d taken after %v at %d a second, want at most %v", taken, now.Sub(start), rate, may)
			}
		}
		if _, err := l.Take(now.Add(longest), 0, Use{Session: "other", Entries: 1}); err != nil || len(l.owed) != 1 {
			t.Fatalf("later: %v, %d owners kept, want 1", err, len(l.owed))
		}
	})
}

// What is beyond one quota takes of no other; each has its own.
func TestAllOrNothing(t *testing.T) {
	l, now := New(Rates{Session: Rate{Bytes: 10}, User: Rate{Entries: 2}, Token: Rate{Entries: 1000}}), time.Unix(1, 0)
	take := func(patience time.Duration, u ...Use) (time.Duration, string) {
		wait, err := l.Take(now, patience, u...)
		var beyond *Refused
		if errors.As(err, &beyond) {
			return wait, beyond.Quota
		}
		return wait, ""
	}
	big := Use{Session: "a", Token: "t", Bytes: 1000, Entries: 1}
	if _, q := take(0, big); q != "" {
		t.Fatalf("first take: beyond %s", q)
	}
	for range 5 {
		if _, q := take(0, Use{Session: "b", Token: "t", User: "u", Entries: 1}, big); q != "session_bytes" {
			t.Fatalf("take behind 1000 bytes = beyond %q", q)
		}
	}
	if wait, q := take(time.Hour, big); q != "" || wait != 99*time.Second {
		t.Fatalf("patient take = %v, beyond %q, want 99s", wait, q)
	}
	for range 3 {
		if _, q := take(0, Use{Session: "b", Token: "t", User: "u", Entries: 1}); q != "" {
			t.Fatalf("user's take = beyond %q", q)
		}
	}
	if _, q := take(0, Use{Session: "b", Token: "t", User: "u", Entries: 1}); q != "user_entries" {
		t.Fatalf("fourth take of a user = beyond %q", q)
	}
	if _, q := take(0, Use{Session: "b", Token: "other", User: "u", Entries: 1}); q != "" {
		t.Fatalf("user of the same name with another token = beyond %q", q)
	}
	if n := l.Refusals(); n["session_bytes"] != 5 || n["user_entries"] != 1 {
		t.Fatalf("counted %v", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	must.Do(t, l.Wait(ctx, 0, big))
	if err := l.Wait(ctx, math.MaxInt64, big); !errors.Is(err, context.Canceled) {
		t.Fatalf("Wait after the end = %v", err)
	}
}

// A token stores to so many sessions in an hour, as often as it likes, and another token to as many of its own.
func TestSessionsOfAToken(t *testing.T) {
	l, now := New(Rates{Sessions: 2}), time.Unix(1, 0)
	for _, c := range []struct {
		after          time.Duration
		token, session string
		entries        int64
		refused        time.Duration // until when
	}{
		{0, "t", "a", 1, 0}, {time.Minute, "t", "b", 1, 0}, {time.Minute, "t", "a", 1, 0}, {0, "t", "c", 1, 58 * time.Minute},
		{0, "t", "c", 0, 0}, {0, "other", "c", 1, 0}, {0, "t", "b", 5, 0}, {58 * time.Minute, "t", "c", 1, 0}, {0, "t", "a", 1, 0},
		{0, "t", "b", 1, time.Hour},
	} {
		now = now.Add(c.after)
		_, err := l.Take(now, 0, Use{Session: c.session, Token: c.token, Entries: c.entries})
		var beyond *Refused
		if errors.As(err, &beyond) != (c.refused > 0) || beyond != nil && beyond.After != c.refused {
			t.Fatalf("%+v = %v", c, err)
		}
	}
	must.Same(t, l.Refusals()[tokenSessions], 2, "%d refusals counted, want %d")
}

// What is refused for one of its sessions takes no place for the others.
func TestRefusedVisitsNobody(t *testing.T) {
	l, now := New(Rates{Sessions: 2}), time.Unix(1, 0)
	use := func(session string) Use { return Use{Session: session, Token: "t", Entries: 1} }
	if _, err := l.Take(now, 0, use("a"), use("b"), use("c")); err == nil {
		t.Fatal("three sessions are taken, want a refusal")
	}
	must.Is(t, must.Err(l.Take(now, 0, use("d"), use("e"))), nil, "two sessions, where nothing was stored before")
	if _, err := l.Take(now, 0, use("d"), use("f")); err == nil {
		t.Error("a third session is taken, want a refusal")
	}
	must.Is(t, must.Err(l.Take(now, 0, use("e"), use("d"))), nil, "those that it has")
}
