package history

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"spool/internal/jsonscan"
	"spool/pkg/events"
)

// parse reads a plain user post out of an item's JSON (SPEC I1). ok is false for anything else.
func parse(item []byte) (p Post, ok bool) {
	if jsonscan.Valid(item) != nil {
		return p, false
	}
	if kind := jsonscan.KindOf(jsonscan.Get(item, "metadata", "type")); kind != jsonscan.KindInvalid && kind != jsonscan.KindNull {
		return p, false
	}
	p.Thread.Session, _ = jsonscan.Text(jsonscan.Get(item, "session"))
	p.Thread.Name, _ = jsonscan.Text(jsonscan.Get(item, "thread"))
	p.N, _ = jsonscan.Int(jsonscan.Get(item, "n"))
	created, _ := jsonscan.Text(jsonscan.Get(item, "created_at"))
	if at, err := time.Parse(time.RFC3339, created); err == nil {
		p.Time = at.UnixMilli()
	}
	p.Text = contentText(item)
	return p, p.N > 0 && p.Thread.Validate() == nil
}

// contentText is the texts of an item's content.
func contentText(item []byte) string {
	var parts []string
	_ = jsonscan.Array(jsonscan.Get(item, "content"), func(part []byte) bool {
		if typ, _ := jsonscan.Text(jsonscan.Get(part, "type")); typ == "text" {
			text, _ := jsonscan.Text(jsonscan.Get(part, "text"))
			parts = append(parts, text)
		}
		return true
	})
	return strings.Join(parts, "\n")
}

// A transaction takes about this much, so that memory is bounded and other writers of the file get their turn.
const (
	mostPosts   = 500
	mostBytes   = 4 << 20
	mostThreads = 5000
)

// gathered is what the next transaction will store.
type gathered struct {
	posts  []Post
	bytes  int
	former []Former
	filled map[events.Thread]Filled
}

func (g *gathered) add(p Post) {
	g.posts = append(g.posts, p)
	g.bytes += len(p.Text)
}

// names are the sessions of the posts.
func (g *gathered) names() []string {
	names := map[string]bool{}
	for _, p := range g.posts {
		names[p.Thread.Session] = true
	}
	return slices.Collect(maps.Keys(names))
}

// left are the keys of what the threads of the posts left when they were renamed.
func (g *gathered) left() []string {
	keys := map[string]bool{}
	for _, p := range g.posts {
		keys[events.LeftKey(p.Thread)] = true
	}
	return slices.Collect(maps.Keys(keys))
}

// whole notes that all posts of a thread up to a number are stored or among those gathered.
func (g *gathered) whole(t events.Thread, to Filled) {
	if g.filled == nil {
		g.filled = map[events.Thread]Filled{}
	}
	g.filled[t] = to
}

func (g *gathered) full() bool {
	return len(g.posts) >= mostPosts || g.bytes >= mostBytes || len(g.filled) >= mostThreads
}

// sorted is the posts of each thread in the order of their numbers: those of one millisecond get their places in it.
func (g *gathered) sorted() []Post {
	slices.SortFunc(g.posts, func(a, b Post) int {
		return cmp.Or(cmp.Compare(a.Thread.Session, b.Thread.Session), cmp.Compare(a.Thread.Name, b.Thread.Name), cmp.Compare(a.Life, b.Life),
			cmp.Compare(a.N, b.N))
	})
	return g.posts
}
