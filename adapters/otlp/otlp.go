// Package otlp sends what agents did to a collector of traces, as the semantic conventions for generative AI name it: a span for each turn
// of a thread, and in it one for each call of a tool.
//
//	trace              a session; gen_ai.conversation.id is its name, on every span
//	invoke_agent NAME  a turn: from what began it to its turn_end, with the tokens it took
//	execute_tool NAME  from a tool_call to its tool_result, child of the turn
//
// The ids of traces and spans are hashes of what they are of, so that what is sent twice is one span. A turn is sent when it ends, and is done
// when the collector has taken it: after a crash it is sent again.
package otlp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v4"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// Config of an export.
type Config struct {
	Session string // of which turns are sent; "": of all
	All     bool   // a name that is new begins with the first turn that is kept; else with the next one
	Content bool   // also what users, agents and tools said: up to 32 KiB of each. Else names, times and figures alone

	// Upload gives spans to a collector: the method UploadTraces of an otlptrace.Client is one. After an error they are given again.
	Upload func(ctx context.Context, spans []*tracepb.ResourceSpans) error
	Log    *slog.Logger // what failed and is tried again; nil: nowhere
}

// mostWait is the longest time between two tries to send a turn.
const mostWait = time.Minute

// Run sends turns until ctx ends. Its place is kept in Spool under a name: whoever runs next under that
// goes on there, and of several at a time one sends.
func Run(ctx context.Context, cl *client.Client, name string, cfg Config) error {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	filter := client.Filter{Session: cfg.Session, Type: events.TypeTurnEnd}
	for end, err := range cl.SubscribeDurable(ctx, name, filter, client.Position{All: cfg.All}) {
		if err != nil {
			return err
		}
		if err := send(ctx, cl, cfg, end); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// send sends the turn that an item ends, as often as it takes. One whose thread is gone is not sent.
func send(ctx context.Context, cl *client.Client, cfg Config, end client.Item) error {
	wait := backoff.NewExponentialBackOff(backoff.WithMaxInterval(mostWait), backoff.WithMaxElapsedTime(0))
	of := fmt.Sprintf("%s/%s item %d", end.Session, end.Thread, end.N)
	return backoff.RetryNotify(func() error {
		t, err := read(ctx, cl, end)
		if errors.Is(err, threads.ErrNoThread) {
			cfg.Log.Info("a turn is not sent: its thread was removed or renamed", "turn", of)
			return nil
		}
		if err == nil {
			err = cfg.Upload(ctx, t.spans(cfg.Content))
		}
		return err
	}, backoff.WithContext(wait, ctx), func(err error, wait time.Duration) {
		cfg.Log.Warn("a turn was not taken and is sent again", "turn", of, "in", wait, "error", err)
	})
}

// read reads the items of the turn that an item ends: those behind the one that ended the turn before.
func read(ctx context.Context, cl *client.Client, end client.Item) (t turn, err error) {
	id := events.Thread{Session: end.Session, Name: end.Thread}
	head, err := cl.Thread(ctx, id)
	if err == nil && head.Life != end.Life && end.Life != 0 {
		err = fmt.Errorf("%w: %s is another thread now", threads.ErrNoThread, id)
	}
	if err != nil {
		return t, err
	}
	info, err := cl.Info(ctx, end.Session)
	if err != nil {
		return t, err
	}
	t.harness, t.model, t.host, t.items = info.Harness, info.Model, info.Host, []item{readItem(end)}
	for posted, err := range cl.ItemsBack(ctx, id, head, end.N) {
		if err != nil {
			return t, err
		}
		var it client.Item
		if err := json.Unmarshal(posted.Data, &it); err != nil {
			return t, fmt.Errorf("item %d of %s: %w", posted.N, id, err)
		}
		if it.Type() == events.TypeTurnEnd {
			break
		}
		t.items = append(t.items, readItem(it))
	}
	slices.Reverse(t.items)
	return t, nil
}
