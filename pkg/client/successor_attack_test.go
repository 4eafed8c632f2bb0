package client_test

import (
	"testing"

	"spool/pkg/client"
)

// A process that was there first goes on as the producer of one that came later and died: what the dead one kept comes before, also
// when both are gone and a third process drains what they left.
func TestOfflineSuccessorThatWasThereBefore(t *testing.T) {
	s, dir := newSite(t), t.TempDir()
	older := connectOffline(t, s, dir, 0)
	first := connectOffline(t, s, dir, 0)
	laptop(t, first, 0, 1, 3)
	first.Close()
	laptop(t, older, 0, 4, 5)
	older.Close()
	s.up()
	third := connectOffline(t, s, dir, 0)
	defer third.Close()
	laptop(t, third, 0, 6, 6)
	if err := third.Flush(limited(t)); err != nil {
		t.Fatal(err)
	}
	await(t, third, thread("s"), "laptop", 6)
	h, err := third.Thread(limited(t), thread("s"))
	if err != nil {
		t.Fatal(err)
	}
	letters, err := third.DeadLetters(limited(t), "")
	if err != nil {
		t.Fatal(err)
	}
	if h.Entries != 6 {
		t.Errorf("%d of 6 acknowledged entries are in the thread, %d dead letters", h.Entries, len(letters))
	}
	_ = client.Config{}
}
