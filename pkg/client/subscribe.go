package client

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"

	"spool/internal/natsio"
	"spool/pkg/events"
)

// Item is one thread item as subscribers see it (SPEC I1).
type Item struct {
	ID        string          `json:"id"`
	N         int64           `json:"n"` // 1, 2, 3, … in its thread
	Session   string          `json:"session"`
	Thread    string          `json:"thread"`
	User      string          `json:"user_id,omitempty"`
	CreatedAt string          `json:"created_at"`
	Node      string          `json:"node"`
	Source    string          `json:"source,omitempty"`
	Content   []Part          `json:"content"`
	Metadata  json.RawMessage `json:"metadata,omitempty"`

	Seq  uint64 `json:"-"` // position in ITEMS, to go on from
	More uint64 `json:"-"` // items that are stored behind it
	Raw  []byte `json:"-"` // the JSON it was read from
}

// Part is one piece of an item's content.
type Part struct {
	Type string `json:"type"`
	Text string `json:"text,omitempty"`
}

// Type is metadata.type, or "message" for a plain user post.
func (i *Item) Type() string {
	var m struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(i.Metadata, &m) != nil || m.Type == "" {
		return "message"
	}
	return m.Type
}

// Text is the first text of the content.
func (i *Item) Text() string {
	for _, p := range i.Content {
		if p.Type == "text" {
			return p.Text
		}
	}
	return ""
}

// Position is where a subscription starts; the zero value is with the next item.
type Position = natsio.Position

// Filter chooses items; empty fields choose everything.
type Filter struct {
	Session string
	Thread  string
	Type    string // metadata.type, or "message"
	NotUser string // leaves out items of that user_id: a program that posts and reads would else read itself (SPEC I6)
}

func (f Filter) subjects() []string {
	if f.Type == "" {
		return []string{events.ItemFilter(f.Session, f.Thread, "")}
	}
	return events.ItemFilters(f.Session, f.Thread, f.Type)
}

// Subscribe follows items from a position until ctx ends or the caller breaks off. Of each thread they come in the order of
// n, each once: what was stored twice after a crash is dropped here, and what is missing is made from the thread's nodes.
func (c *Client) Subscribe(ctx context.Context, f Filter, from Position) iter.Seq2[Item, error] {
	return c.SubscribeReady(ctx, f, from, nil)
}

// SubscribeReady is Subscribe; ready is called once the subscription stands: all that is stored after it will come.
func (c *Client) SubscribeReady(ctx context.Context, f Filter, from Position, ready func()) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		last := map[events.Thread]int64{}
		for stored, err := range c.conn.Items(ctx, f.subjects(), from, ready) {
			if err != nil {
				yield(Item{}, err)
				return
			}
			items, err := c.next(ctx, f, from, last, stored)
			if err != nil {
				yield(Item{}, err)
				return
			}
			for _, item := range items {
				if f.NotUser != "" && item.User == f.NotUser {
					continue
				}
				if !yield(item, nil) {
					return
				}
			}
		}
	}
}

// next is what a stored item adds to a subscription: nothing when it came before; the missing ones first, made from the
// thread's nodes, when there is a gap. Where items are left out by type or by position, gaps are as they should be.
func (c *Client) next(ctx context.Context, f Filter, from Position, last map[events.Thread]int64, stored natsio.StoredItem) ([]Item, error) {
	item, err := parseItem(stored.Data)
	if err != nil {
		return nil, fmt.Errorf("%s, sequence %d: %w", stored.Subject, stored.Seq, err)
	}
	item.Seq, item.More = stored.Seq, stored.Pending
	t := events.Thread{Session: item.Session, Name: item.Thread}
	before := last[t]
	if from.Last {
		return []Item{item}, nil
	}
	if item.N <= before {
		return nil, nil
	}
	last[t] = item.N
	if before == 0 || item.N == before+1 || f.Type != "" {
		return []Item{item}, nil
	}
	missing, err := c.Past(ctx, t, before+1, item.N-1)
	if err != nil {
		return nil, fmt.Errorf("items %d to %d of %s are not in ITEMS: %w", before+1, item.N-1, t, err)
	}
	return append(missing, item), nil
}

// Empty reports whether a subscription would get nothing of what is stored now.
func (c *Client) Empty(ctx context.Context, f Filter, from Position) (bool, error) {
	if from == (Position{}) {
		return true, nil
	}
	for _, subject := range f.subjects() {
		newest, err := c.conn.Newest(ctx, subject)
		if err != nil {
			return false, err
		}
		if !newest.IsZero() && !newest.Before(from.Since) {
			return false, nil
		}
	}
	return true, nil
}
