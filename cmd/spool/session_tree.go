package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/oklog/ulid/v2"

	"spool/internal/jsonscan"
	"spool/internal/rehydrate"
	"spool/internal/service"
	"spool/internal/text"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/sessions"
)

type sessionBranchCmd struct {
	Session string `arg:"" name:"session[/thread]" help:"The session; its main thread unless named."`
	Entry   string `arg:"" help:"Id of the entry that the next one goes after."`
	Summary string `placeholder:"TEXT" help:"Also append what was learned on the path that is left, as a branch summary."`
}

func (c *sessionBranchCmd) Run(a *app) error {
	return a.onThread(c.Session, func(cl *client.Client, t events.Thread) error {
		return a.entry(cl, t, c.Entry, func(id string) error {
			if c.Summary != "" {
				return a.summarize(cl, t, id, c.Summary)
			}
			err := cl.Thread(t).Branch(a.ctx, id)
			if err == nil {
				_, err = fmt.Fprintf(a.out, "leaf of %s is %s\n", t, id)
			}
			return err
		})
	})
}

func (a *app) summarize(cl *client.Client, t events.Thread, entry, summary string) error {
	id, err := cl.Thread(t).BranchWithSummary(a.ctx, entry, sessions.Summarized{Summary: summary})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.out, "leaf of %s is %s, the summary\n", t, id)
	return err
}

type sessionResetCmd struct {
	Session string `arg:"" name:"session[/thread]" help:"The session; its main thread unless named."`
	Summary string `placeholder:"TEXT" help:"Also append what was learned on the path that is left, as a branch summary."`
}

func (c *sessionResetCmd) Run(a *app) error {
	return a.onThread(c.Session, func(cl *client.Client, t events.Thread) error {
		if c.Summary != "" {
			return a.summarize(cl, t, "", c.Summary)
		}
		if err := cl.Thread(t).Reset(a.ctx); err != nil {
			return err
		}
		_, err := fmt.Fprintf(a.out, "%s has no leaf: the next entry is a new root\n", t)
		return err
	})
}

type sessionLabelCmd struct {
	Session string `arg:"" name:"session[/thread]" help:"The session; its main thread unless named."`
	Entry   string `arg:"" help:"Id of the entry."`
	Text    string `arg:"" optional:"" help:"Its label; none takes it away."`
}

func (c *sessionLabelCmd) Run(a *app) error {
	return a.onThread(c.Session, func(cl *client.Client, t events.Thread) error {
		return a.entry(cl, t, c.Entry, func(target string) error {
			id, err := cl.Thread(t).Label(a.ctx, target, c.Text)
			if err == nil {
				_, err = fmt.Fprintln(a.out, id)
			}
			return err
		})
	})
}

type sessionNameCmd struct {
	Session string `arg:"" help:"The session; its id stays."`
	Title   string `arg:"" help:"The title."`
	Auto    bool   `help:"A program made it up: it does not replace one that the user gave."`
}

func (c *sessionNameCmd) Run(a *app) error {
	if err := new(sessions.Info).Name(c.Title, ""); err != nil {
		return service.UsageError{Err: err}
	}
	return a.operate(c.Session, func(cl *client.Client, t events.Thread) (string, error) {
		done := fmt.Sprintf("%s has a title: %s", t.Session, text.Printable(c.Title))
		return done, cl.Session(t.Session).Name(a.ctx, c.Title, c.Auto)
	})
}

type sessionMoveCmd struct {
	Session string `arg:"" help:"The session; its id and its artifacts stay."`
	Dir     string `arg:"" help:"The directory, below the current one unless it is absolute."`
}

func (c *sessionMoveCmd) Run(a *app) error {
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return err
	}
	if err := new(sessions.Info).Move(dir); err != nil {
		return service.UsageError{Err: err}
	}
	return a.operate(c.Session, func(cl *client.Client, t events.Thread) (string, error) {
		return fmt.Sprintf("%s is of %s now", t.Session, text.Printable(dir)), cl.Session(t.Session).Move(a.ctx, dir)
	})
}

type sessionNewCmd struct {
	Session string `arg:"" optional:"" help:"Id of the session (default: made up)."`
	Cwd     string `placeholder:"DIR" help:"Directory that its agent works in (default: the current one)."`
	Parent  string `placeholder:"SESSION" help:"The session that it goes on from; nothing of it is taken, as fork does."`
}

func (c *sessionNewCmd) Run(a *app) error {
	c.Session = cmp.Or(c.Session, strings.ToLower(ulid.Make().String()))
	if err := checkNames(c.Session, ""); err != nil {
		return service.UsageError{Err: err}
	}
	dir, err := filepath.Abs(c.Cwd)
	if err != nil {
		return err
	}
	cl, err := a.client()
	if err != nil {
		return err
	}
	err = cl.Session(c.Session).New(a.ctx, dir, c.Parent)
	if errors.Is(err, client.ErrSessionNotFound) && c.Parent != "" { // the parent is: this one begins
		parent, none := a.changed(cl, c.Parent)
		if none != nil {
			return none
		}
		err = cl.Session(c.Session).New(a.ctx, dir, parent)
	}
	if err != nil {
		return mendable(err, events.Thread{Session: c.Session, Name: events.MainThread})
	}
	leaveHere(c.Session)
	_, err = fmt.Fprintln(a.out, c.Session)
	return err
}

type sessionForkCmd struct {
	Session string `arg:"" name:"session[/thread]" help:"The session; its main thread unless named."`
	New     string `arg:"" optional:"" help:"Id of the new one (default: made up)."`
	Path    bool   `help:"Only the entries on the path to the leaf, without the other branches."`
	Leaf    string `placeholder:"ENTRY" help:"With --path: the entry that the path leads to."`
}

func (c *sessionForkCmd) Help() string {
	return "The main thread of the session, or another one, under a new id and with a header that names the old one. Nothing is copied."
}

func (c *sessionForkCmd) Run(a *app) error {
	c.New = cmp.Or(c.New, strings.ToLower(ulid.Make().String()))
	if err := checkNames(c.New, ""); err != nil {
		return service.UsageError{Err: err}
	}
	if c.Leaf != "" && !c.Path {
		return service.UsageError{Err: errors.New("--leaf goes with --path")}
	}
	return a.onThread(c.Session, func(cl *client.Client, t events.Thread) error {
		err := a.entry(cl, t, c.Leaf, func(leaf string) error {
			return cl.Session(t.Session).Fork(a.ctx, c.New, client.SessionFork{Thread: t.Name, Path: c.Path, Leaf: leaf})
		})
		if err != nil {
			return err
		}
		leaveHere(c.New)
		_, err = fmt.Fprintln(a.out, c.New)
		return err
	})
}

type sessionContextCmd struct {
	Session string `arg:"" name:"session[/thread]" help:"The session; its main thread unless named."`
	Leaf    string `placeholder:"ENTRY" help:"The entry to stand at (default: the session's leaf)."`
	JSON    bool   `help:"The context as one JSON object, messages whole."`
}

func (c *sessionContextCmd) Run(a *app) error {
	return a.readThread(c.Session, func(cl *client.Client, t events.Thread) error {
		missing := 0
		var ctx sessions.Context
		err := a.entry(cl, t, c.Leaf, func(leaf string) (err error) {
			ctx, err = cl.Thread(t).Context(a.ctx, sessions.At(leaf), func(m rehydrate.Missing) {
				missing++
				fmt.Fprintln(a.err, m)
			})
			return err
		})
		if errors.Is(err, client.ErrNoContext) {
			return fmt.Errorf("%w: spool thread log --model-context %s shows what a model is sent", err, t)
		}
		if err != nil {
			return err
		}
		if c.JSON {
			_, err = fmt.Fprintf(a.out, "%s\n", ctx.JSON())
		} else {
			err = writeContext(a, ctx)
		}
		if err == nil {
			err = lacking(missing)
		}
		return err
	})
}

// writeContext shows a context to a person: the state, and a line for each message.
func writeContext(a *app, c sessions.Context) error {
	var b strings.Builder
	for _, role := range slices.Sorted(maps.Keys(c.Models)) {
		fmt.Fprintf(&b, "model %s: %s\n", role, c.Models[role])
	}
	text.Fprintf(&b, "thinking: %s\nmode: %s\n%d messages\n\n", c.ThinkingLevel, c.Mode, len(c.Messages))
	for _, m := range c.Messages {
		role, _ := jsonscan.Text(jsonscan.Get(m, "role"))
		fmt.Fprintln(&b, clip(a.columns(), fmt.Sprintf("%-18s %s", text.Printable(role), text.Printable(messageLine(m))), ""))
	}
	_, err := a.out.Write([]byte(b.String()))
	return err
}

type sessionTreeCmd struct {
	Session string `arg:"" name:"session[/thread]" help:"The session; its main thread unless named."`
	JSON    bool   `help:"Each entry as one line of JSON, in the order in which they came."`
}

func (c *sessionTreeCmd) Run(a *app) error {
	return a.readThread(c.Session, func(cl *client.Client, t events.Thread) error {
		tree, err := cl.Thread(t).Tree(a.ctx)
		if err != nil {
			return err
		}
		if c.JSON {
			return treeJSON(a, tree)
		}
		var b strings.Builder
		text.Fprintf(&b, "%s: %d entries", t, len(tree.Entries()))
		if tree.Leaf() == sessions.Root {
			b.WriteString(", no leaf: the next entry is a new root")
		}
		b.WriteString("\n")
		for _, root := range tree.Roots() {
			drawChain(&b, a.columns(), tree, root, "", "")
		}
		_, err = a.out.Write([]byte(b.String()))
		return err
	})
}

// drawChain draws an entry and those that go on from it: one below the other as long as each has one child, then each
// child deeper. first stands before the first line, rest before the others; a line has so many columns with its marks, 0: any.
func drawChain(b *strings.Builder, columns int, tree *client.Tree, n *sessions.Node, first, rest string) {
	for {
		mark := ""
		if n.Label != "" {
			mark = "  [" + text.Printable(n.Label) + "]"
		}
		if n.Entry.ID != "" && tree.Leaf().ID() == n.Entry.ID {
			mark += "  <- leaf"
		}
		kind, line := entryLine(&n.Entry)
		fmt.Fprintln(b, clip(columns, first+text.Printable(n.Entry.ID+"  "+kind+line), mark))
		if len(n.Children) != 1 {
			break
		}
		n, first = n.Children[0], rest
	}
	for i, child := range n.Children {
		if i == len(n.Children)-1 {
			drawChain(b, columns, tree, child, rest+"└─ ", rest+"   ")
		} else {
			drawChain(b, columns, tree, child, rest+"├─ ", rest+"│  ")
		}
	}
}

func treeJSON(a *app, tree *client.Tree) error {
	enc := a.plainJSON()
	listed := tree.Listed()
	for i, e := range tree.Entries() {
		kind, line := entryLine(&e)
		err := enc.Encode(struct {
			client.TreeEntry
			Kind string `json:"kind"`
			Text string `json:"text"`
		}{listed[i], kind, strings.TrimPrefix(line, ": ")})
		if err != nil {
			return err
		}
	}
	return nil
}

// lineRunes is how much of an entry a tree shows.
const lineRunes = 80

// entryLine is what a tree shows of an entry: who speaks, or its type, and a line of what it says, with ": " in front.
func entryLine(e *sessions.Entry) (kind, line string) {
	kind = e.Type
	if message := jsonscan.Get(e.Raw, "message"); message != nil {
		if role, ok := jsonscan.Text(jsonscan.Get(message, "role")); ok {
			kind = role
		}
		line = messageLine(message)
	} else {
		for _, name := range []string{"summary", "label", "model", "thinkingLevel", "mode", "title", "customType", "content"} {
			if line = jsonscan.FirstLine(jsonscan.Get(e.Raw, name), lineRunes); line != "" {
				break
			}
		}
		if target, ok := jsonscan.Text(jsonscan.Get(e.Raw, "targetId")); ok {
			line = strings.TrimSpace(target + " " + line)
		}
	}
	if line != "" {
		line = ": " + line
	}
	return kind, line
}

// messageLine is the first line that a message says; of one that says nothing, what it does.
func messageLine(message []byte) (line string) {
	content := jsonscan.Get(message, "content")
	if line = jsonscan.FirstLine(content, lineRunes); line != "" {
		return line
	}
	_ = jsonscan.Array(content, func(block []byte) bool {
		for _, name := range []string{"text", "thinking", "name"} {
			if line = jsonscan.FirstLine(jsonscan.Get(block, name), lineRunes); line != "" {
				return false
			}
		}
		return true
	})
	if line == "" {
		line = jsonscan.FirstLine(jsonscan.Get(message, "summary"), lineRunes)
	}
	return line
}
