package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"

	"spool/internal/history"
	"spool/internal/natsio"
	"spool/internal/record"
	"spool/pkg/client"
	"spool/pkg/events"
)

// index feeds the history of prompts: what there is now or, with Ms, what comes in that time. Then its process dies.
func (d *driver) index(ctx context.Context, conn *natsio.Conn, o Op) error {
	return d.withHistory(func(db *history.DB) error {
		f := history.NewFollower(db, conn, d.log)
		if o.Ms == 0 {
			return f.CatchUp(ctx)
		}
		ctx, cancel := context.WithTimeout(ctx, ms(o.Ms))
		defer cancel()
		err := f.Follow(ctx)
		if record.Temporary(err) { // it is tried again, by the next one
			return nil
		}
		return err
	})
}

func (d *driver) withHistory(do func(*history.DB) error) error {
	return history.With(filepath.Join(d.dir, "history.db"), do)
}

// indexed holds the history, once it has caught up, against the threads: each prompt of a thread is in it once.
func (j *judgement) indexed(ctx context.Context, cl *client.Client, conn *natsio.Conn) error {
	if !j.p.wants(Index) {
		return nil
	}
	type place struct {
		thread events.Thread
		n      int64
	}
	texts := map[place][]string{}
	err := j.withHistory(func(db *history.DB) error {
		f := history.NewFollower(db, conn, j.log)
		known, err := db.Sessions(ctx)
		if err == nil {
			_, err = f.Forget(ctx, known)
		}
		if err == nil {
			err = f.CatchUp(ctx)
		}
		if err != nil {
			return err
		}
		all, err := db.Recent(ctx, history.Filter{}, history.MaxLimit)
		for _, p := range all {
			at := place{p.Thread, p.N}
			if slices.Contains(texts[at], p.Text) {
				j.fail("the history has the prompt %d of %s twice: %.80q", p.N, p.Thread, p.Text)
			}
			texts[at] = append(texts[at], p.Text)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("history: %w", err)
	}
	stored, err := cl.EverySession().Threads(ctx)
	if err != nil {
		return err
	}
	for _, t := range stored {
		if l := j.model.threads[t.Thread]; l == nil || l.forked || l.moved { // under this name ITEMS never had its first ones
			continue
		}
		for posted, err := range cl.Thread(t.Thread).ItemsFrom(ctx, t.Head, 1) {
			if err != nil {
				return err
			}
			var it client.Item
			if json.Unmarshal(posted.Data, &it) != nil || it.Type() != "message" || it.Source != "" {
				continue
			}
			if !slices.Contains(texts[place{t.Thread, posted.N}], it.Text()) {
				j.fail("the history lacks the prompt %d of %s: %.80q", posted.N, t.Thread, it.Text())
			}
		}
	}
	return nil
}
