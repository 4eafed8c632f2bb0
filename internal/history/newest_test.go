package history_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spool/internal/history"
	"spool/internal/must"
	"spool/internal/natstest"
	"spool/pkg/events"
)

// The newest prompts are those of a history that has all, whatever of the stream was read for them and whatever times the items claim: sessions
// that are imported are older than what was said before. What was read ahead is there once.
func TestCatchUpNewest(t *testing.T) {
	history.SetNewestWindow(t, 4)
	conn, rnd := natstest.Conn(t), rand.New(rand.NewPCG(1, 2))
	ctx, last := t.Context(), map[events.Thread]int{}
	post := func(many int) {
		for range many {
			th := events.Thread{Session: fmt.Sprint("s", rnd.IntN(9)), Name: events.MainThread}
			last[th]++
			at := time.Now()
			if rnd.IntN(4) == 0 {
				at = at.Add(-time.Duration(rnd.IntN(1000)) * time.Hour)
			}
			item := fmt.Sprintf(`{"session":%q,"thread":"main","n":%d,"created_at":%q,"content":[{"type":"text","text":"mend %d"}]}`, th.Session, last[th],
				at.UTC().Format(time.RFC3339Nano), rnd.IntN(3))
			must.Get(conn.JetStream().PublishAsync(events.ItemSubject(th, events.TypeMessage, ""), []byte(item)))(t) // many in a millisecond
		}
		<-conn.JetStream().PublishAsyncComplete()
	}
	same := func(what string, has *history.DB, limit int) {
		t.Helper()
		whole := open(t, filepath.Join(t.TempDir(), "whole.db"))
		must.Do(t, history.NewFollower(whole, conn, nil).CatchUp(ctx))
		for _, of := range []history.Filter{{}, {Session: "s3"}} {
			if limit < history.MaxLimit {
				must.Do(t, history.NewFollower(has, conn, nil).CatchUpNewest(ctx, of, limit))
			}
			want, got := must.Get(whole.Recent(ctx, of, limit))(t), must.Get(has.Recent(ctx, of, limit))(t)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s, the newest %d of %+v:\n%s", what, limit, of, diff)
			}
		}
	}
	kept := open(t, filepath.Join(t.TempDir(), "kept.db"))
	for range 6 {
		post(40 + rnd.IntN(60))
		for _, limit := range []int{1, 3, 10, 40} {
			same("a new history", open(t, filepath.Join(t.TempDir(), "new.db")), limit)
		}
		same("one that was asked before", kept, 5)
	}
	must.Do(t, history.NewFollower(kept, conn, nil).CatchUp(ctx))
	same("one that has caught up", kept, history.MaxLimit)
}

// A prompt that repeats the one before it in its thread is not among the newest, though the thread said nothing in words between them.
func TestCatchUpNewestBehindPictures(t *testing.T) {
	history.SetNewestWindow(t, 5)
	conn, last, said := natstest.Conn(t), map[string]int{}, time.Now()
	say := func(session, text string) {
		th := events.Thread{Session: session, Name: events.MainThread}
		last[session]++
		must.Until(t, "another millisecond", func() bool { return time.Now().UnixMilli() > said.UnixMilli()+1 })
		said = time.Now()
		item := fmt.Sprintf(`{"session":%q,"thread":"main","n":%d,"created_at":%q,"content":[{"type":"text","text":%q}]}`, session, last[session],
			said.UTC().Format(time.RFC3339Nano), text)
		must.Get(conn.JetStream().Publish(t.Context(), events.ItemSubject(th, events.TypeMessage, ""), []byte(item)))(t)
	}
	for _, text := range []string{"prune", "", "", ""} { // pictures are no text
		say("orchard", text)
	}
	for n := range 40 {
		say("barn", fmt.Sprint("mend ", n))
	}
	say("orchard", "prune")
	for n := range 2 {
		say("barn", fmt.Sprint("paint ", n))
	}
	db := open(t, filepath.Join(t.TempDir(), "new.db"))
	must.Do(t, history.NewFollower(db, conn, nil).CatchUpNewest(t.Context(), history.Filter{}, 3))
	var got []string
	for _, p := range must.Get(db.Recent(t.Context(), history.Filter{}, 3))(t) {
		got = append(got, p.Text)
	}
	if want := []string{"paint 1", "paint 0", "mend 39"}; !slices.Equal(got, want) {
		t.Errorf("the newest prompts are %q, want %q", got, want)
	}
}

// The newest prompts cost what they are also where a thread repeats itself behind thousands of pictures: they are not looked at one by one.
func TestCatchUpNewestBehindThousandsOfPictures(t *testing.T) {
	conn, last := natstest.Conn(t), map[string]int{}
	say := func(session, text string) {
		last[session]++
		th := events.Thread{Session: session, Name: events.MainThread}
		item := fmt.Sprintf(`{"session":%q,"thread":"main","n":%d,"content":[{"type":"text","text":%q}]}`, session, last[session], text)
		must.Get(conn.JetStream().PublishAsync(events.ItemSubject(th, events.TypeMessage, ""), []byte(item)))(t)
	}
	for range 3000 {
		say("orchard", "")
	}
	for n := range 300 {
		say("barn", fmt.Sprint("mend ", n))
	}
	say("orchard", "prune")
	<-conn.JetStream().PublishAsyncComplete()
	before := conn.JetStream().Conn().Stats().OutMsgs
	db := open(t, filepath.Join(t.TempDir(), "new.db"))
	must.Do(t, history.NewFollower(db, conn, nil).CatchUpNewest(t.Context(), history.Filter{}, 3))
	if asked := conn.JetStream().Conn().Stats().OutMsgs - before; asked > 1000 {
		t.Errorf("the 3 newest prompts ask %d times, want some hundred", asked)
	}
	if got := must.Get(db.Recent(t.Context(), history.Filter{}, 3))(t); len(got) != 3 || got[0].Text != "prune" {
		t.Errorf("the newest prompts are %+v, want prune and two more", got)
	}
}

// The newest of thousands of prompts that were stored in a few milliseconds cost what they are.
func TestCatchUpNewestOfAMillisecond(t *testing.T) {
	history.SetNewestWindow(t, 4)
	conn, ctx, many := natstest.Conn(t), t.Context(), 2000
	for i := range many {
		th := events.Thread{Session: fmt.Sprint("s", i), Name: events.MainThread}
		item := fmt.Sprintf(`{"session":%q,"thread":"main","n":1,"content":[{"type":"text","text":"mend %d"}]}`, th.Session, i)
		must.Get(conn.JetStream().PublishAsync(events.ItemSubject(th, events.TypeMessage, ""), []byte(item)))(t)
	}
	<-conn.JetStream().PublishAsyncComplete()
	before := conn.JetStream().Conn().Stats().OutMsgs
	db := open(t, filepath.Join(t.TempDir(), "new.db"))
	must.Do(t, history.NewFollower(db, conn, nil).CatchUpNewest(ctx, history.Filter{}, 3))
	if asked := conn.JetStream().Conn().Stats().OutMsgs - before; asked > 500 {
		t.Errorf("the 3 newest of %d prompts ask %d times, want a hundred or so", many, asked)
	}
	got := must.Get(db.Recent(ctx, history.Filter{}, 3))(t)
	for i, p := range got {
		must.Same(t, p.Text, fmt.Sprint("mend ", many-1-i), "a newest prompt is %q, want %q")
	}
	must.Same(t, len(got), 3, "there are %d of the newest prompts, want %d")
}
