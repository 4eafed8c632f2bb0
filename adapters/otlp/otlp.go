// Package otlp sends what agents did to a collector of traces, as the semantic conventions for generative AI name it: a span for each turn
// of a thread, and in it one for each call of a tool.
//
//	trace              a session; gen_ai.conversation.id is its name, on every span
//	invoke_agent NAME  a turn: from what began it to its turn_end, with the tokens it took
//	execute_tool NAME  from a tool_call to its tool_result, child of the turn; the turns of a subagent are children of the call that began it
//
// The ids of traces and spans are hashes of what they are of, so that what is sent twice is one span. A turn is sent when
// it ends, and is done when the collector has taken it: after a crash it is sent again. A turn that cannot be read, or
// that the collector refuses, is left out after five tries, with an error in the log, once the collector takes one behind it.
package otlp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
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

	callers map[string][]byte // by thread: the span of the call that began it; nil: none
}

const (
	mostWait  = time.Minute // between two tries to send a turn
	mostTries = 5           // of a turn before those behind it are tried, too
)

// Run sends turns until ctx ends. Its place is kept in Spool under a name: whoever runs next under that
// goes on there, and of several at a time one sends.
func Run(ctx context.Context, cl *client.Client, name string, cfg Config) error {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	cfg.callers = map[string][]byte{}
	for end, err := range cl.SubscribeDurable(ctx, name, cfg.filter(), client.Position{All: cfg.All}) {
		if err != nil {
			return err
		}
		if err := send(ctx, cl, cfg, end); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (cfg Config) filter() client.Filter {
	return client.Filter{Session: cfg.Session, Type: events.TypeTurnEnd}
}

// send sends the turn that an item ends, as often as it takes. One whose thread is gone is not sent.
func send(ctx context.Context, cl *client.Client, cfg Config, end client.Item) error {
	wait := backoff.NewExponentialBackOff(backoff.WithMaxInterval(mostWait), backoff.WithMaxElapsedTime(0))
	of := fmt.Sprintf("%s/%s item %d", end.Session, end.Thread, end.N)
	tries, next := 0, end.Seq+1
	return backoff.RetryNotify(func() error {
		err := give(ctx, cl, cfg, end)
		if errors.Is(err, threads.ErrNoThread) {
			cfg.Log.Info("a turn is not sent: its thread was removed or renamed", "turn", of)
			return nil
		}
		if tries++; err == nil || tries < mostTries || ctx.Err() != nil {
			return err
		}
		taken := false
		if taken, next = takesAny(ctx, cl, cfg, next, end.Seq); taken {
			cfg.Log.Error("a turn is left out: the collector takes others, and not this one", "turn", of, "tries", tries, "error", err)
			return nil
		}
		return err
	}, backoff.WithContext(wait, ctx), func(err error, wait time.Duration) {
		cfg.Log.Warn("a turn was not taken and is sent again", "turn", of, "in", wait, "error", err)
	})
}

// takesAny reports whether the collector takes any turn behind a place, from a sequence of SPOOL_ITEMS on: then it is there, and so is
// Spool. It looks for a while, and gives the sequence at which to go on.
func takesAny(ctx context.Context, cl *client.Client, cfg Config, from, place uint64) (taken bool, next uint64) {
	ctx, cancel := context.WithTimeout(ctx, mostWait)
	defer cancel()
	next = from
	for end, err := range cl.Subscribe(ctx, cfg.filter(), client.Position{Seq: from}) {
		if err != nil {
			break
		}
		if err := give(ctx, cl, cfg, end); err == nil {
			return true, next
		}
		if next = end.Seq + 1; end.More == 0 { // those that were refused once may be taken by now
			return false, place + 1
		}
	}
	return false, next
}

// give reads the turn that an item ends, from there back to the one before, and gives it to the collector: calls as they are read, so that
// no more of a turn is held than is sent at a time, and the turn itself last.
func give(ctx context.Context, cl *client.Client, cfg Config, end client.Item) error {
	id := events.Thread{Session: end.Session, Name: end.Thread}
	head, err := cl.Thread(id).Head(ctx)
	if err == nil && head.Life != end.Life && end.Life != 0 {
		err = fmt.Errorf("%w: %s is another thread now", threads.ErrNoThread, id)
	}
	if err != nil {
		return err
	}
	info, err := cl.Session(end.Session).Info(ctx)
	if err != nil && !errors.Is(err, client.ErrSessionNotFound) { // then nobody says what it is of
		return err
	}
	t := turn{harness: info.Agent(), model: info.Model, host: info.Host, content: cfg.Content}
	if t.caller, err = cfg.caller(ctx, cl, id, head); err != nil {
		return err
	}
	t.begin(readItem(end))
	for it, err := range items(cl.Thread(id).ItemsBack(ctx, head, end.N)) {
		if err != nil {
			return fmt.Errorf("read %s: %w", id, err)
		}
		if it.kind == events.TypeTurnEnd {
			break
		}
		if t.add(it); t.full() {
			if err := cfg.upload(ctx, t.take()); err != nil {
				return err
			}
		}
	}
	return cfg.upload(ctx, t.rest())
}

// mostCallers is how many threads are remembered with the calls that began them.
const mostCallers = 10_000

// caller is the span of the call that began a thread; nil where none did. It is a call of the session's main thread that gave a helper the
// words with which the thread begins: Claude Code, among others, says no more in what it writes of both.
func (cfg Config) caller(ctx context.Context, cl *client.Client, id events.Thread, head threads.Head) (span []byte, err error) {
	if id.Name == events.MainThread {
		return nil, nil
	}
	key := fmt.Sprint(id, head.Life)
	if span, known := cfg.callers[key]; known {
		return span, nil
	}
	task, at := "", uint64(0)
	for it, err := range items(cl.Thread(id).ItemsFrom(ctx, head, 1)) {
		if err != nil {
			return nil, err
		}
		if it.kind == events.TypeMessage {
			task, at = it.Text(), it.at
			break
		}
	}
	main := events.Thread{Session: id.Session, Name: events.MainThread}
	top, err := cl.Thread(main).Head(ctx)
	if err != nil && !errors.Is(err, threads.ErrNoThread) {
		return nil, err
	}
	if err == nil && task != "" {
		for it, err := range items(cl.Thread(main).ItemsBack(ctx, top, top.N+1)) {
			if err != nil {
				return nil, err
			}
			if it.kind != events.TypeToolCall || it.meta.Tool.task() != task {
				continue
			}
			if span = it.call(); it.at <= at { // else an earlier one may have said the same
				break
			}
		}
	}
	if len(cfg.callers) >= mostCallers {
		clear(cfg.callers)
	}
	cfg.callers[key] = span
	return span, nil
}

// items reads items that were made again.
func items(posted iter.Seq2[events.Posted, error]) iter.Seq2[item, error] {
	return func(yield func(item, error) bool) {
		for p, err := range posted {
			var it client.Item
			if err == nil {
				if err = json.Unmarshal(p.Data, &it); err != nil {
					err = fmt.Errorf("item %d: %w", p.N, err)
				}
			}
			if !yield(readItem(it), err) || err != nil {
				return
			}
		}
	}
}

// partly begins what an exporter says of spans that the collector took, with a remark, or of which it refused some for good. Nothing but
// the text tells these errors apart, and by OTLP they must not be sent again.
const partly = "OTLP partial success"

// upload gives spans to the collector.
func (cfg Config) upload(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	err := cfg.Upload(ctx, spans)
	if err != nil && strings.HasPrefix(err.Error(), partly) {
		cfg.Log.Warn("a collector took spans, and has a remark or refused some", "error", err)
		return nil
	}
	return err
}
