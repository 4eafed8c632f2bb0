package proof

import (
	"bufio"
	"context"
	"crypto/sha256"
	"fmt"
	"io"

	"golang.org/x/mod/sumdb/note"

	"spool/pkg/casstore"
	"spool/pkg/threads"
)

// Scratch is room for twice what is proved: a file, empty.
type Scratch interface {
	io.Writer
	io.ReaderAt
}

// Progress is told what is being done, how much of it is done, and of how much.
type Progress func(step string, done, all int64)

// Write writes the proof of threads of a session, and signs it: their names, in ascending order, and the head of each.
// It reads all that they reach and checks it first: what does not hold is not signed, and nothing is written. Errors are
// those of threads.Verify, of the signer, of scratch and of w.
func Write(
	ctx context.Context, w io.Writer, from threads.Reader, session string, names []string, heads []threads.Head,
	signer note.Signer, scratch Scratch, progress Progress,
) (*Report, error) {
	g := gathered{to: bufio.NewWriterSize(scratch, 1<<20), scratch: scratch, packOf: map[casstore.Ref]int{}}
	for _, h := range heads {
		g.entries += h.Entries
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	from.Read = g.take(progress, stop)
	for i, h := range heads {
		err := threads.Verify(ctx, from, provable(h))
		if ctx.Err() != nil { // it says nothing of the thread
			return nil, context.Cause(ctx)
		}
		if err != nil {
			return nil, fmt.Errorf("thread %s does not hold, or cannot be read, and nothing is signed: %w", names[i], err)
		}
	}
	s := statement{session: session}
	for i, h := range heads {
		s.threads = append(s.threads, g.thread(names[i], h))
	}
	var err error
	if s.packs, err = g.pack(ctx, progress); err != nil {
		return nil, err
	}
	text := s.text()
	if len(text) > maxNote-1<<10 {
		return nil, fmt.Errorf("%d threads, with their branches, are too many for one proof: prove them one by one",
			len(s.threads))
	}
	signed, err := note.Sign(&note.Note{Text: text}, signer)
	if err != nil {
		return nil, fmt.Errorf("sign the proof: %w", err)
	}
	if _, err := w.Write(signed); err != nil {
		return nil, err
	}
	n, err := io.Copy(w, io.NewSectionReader(scratch, g.raw, g.packed))
	rep := s.report(signer.Name(), signer.KeyHash())
	rep.Nodes, rep.Blobs, rep.Bytes = len(g.sizes), len(g.packOf)-len(g.sizes), int64(len(signed))+n
	return rep, err
}

// provable is what is proved of a head: its history, and not who wrote it.
func provable(h threads.Head) threads.Head {
	h.Producers, h.Seen = nil, casstore.Located{}
	return h
}

// gathered are the nodes that threads reach: in scratch, one after the other, each once, then the packs made of them.
type gathered struct {
	to      *bufio.Writer
	scratch Scratch
	sizes   []int                // of the nodes, in their order in scratch
	packOf  map[casstore.Ref]int // the pack of each node; of a blob noPack
	packs   int
	inPack  int   // bytes of nodes in the last pack
	raw     int64 // bytes of all nodes
	packed  int64 // bytes of all packs, behind those

	states, entries int64 // for the progress
}

const noPack = -1

// take gives what a reader tells of nodes. stop ends the reading where they cannot be kept.
func (g *gathered) take(progress Progress, stop context.CancelCauseFunc) func(casstore.Ref, casstore.Node) error {
	return func(ref casstore.Ref, n casstore.Node) error {
		if _, known := g.packOf[ref]; known {
			return nil
		}
		b := n.AppendTo(nil)
		if g.packs == 0 || g.inPack+len(b) > packRaw {
			g.packs, g.inPack = g.packs+1, 0
		}
		g.packOf[ref] = g.packs - 1
		g.inPack += len(b)
		g.raw += int64(len(b))
		g.sizes = append(g.sizes, len(b))
		for _, to := range n.Refs {
			if to.Kind() == casstore.KindBlob {
				g.packOf[to] = noPack
			}
		}
		if n.Type == threads.TypeState {
			g.states++
			progress("reading", g.states, g.entries)
		}
		_, err := g.to.Write(b)
		if err != nil {
			stop(err)
		}
		return err
	}
}

// located is a node where the proof has it.
func (g *gathered) located(ref casstore.Ref) casstore.Located {
	if ref.IsZero() {
		return casstore.Located{}
	}
	return casstore.Located{Ref: ref, Pack: packID(g.packOf[ref])}
}

func (g *gathered) thread(name string, h threads.Head) Thread {
	t := Thread{Name: name, Entries: h.Entries, Items: h.N, start: g.located(h.Start.Ref), older: g.located(h.Older.Ref)}
	if len(h.Recent) > 0 {
		t.head = g.located(h.Recent[0].Ref)
		t.Head = t.head.Ref.String()
	}
	for _, tip := range h.Tips {
		t.tips = append(t.tips, g.located(tip.Ref))
	}
	return t
}

// pack makes packs of the nodes, in their order, and writes them behind the nodes.
func (g *gathered) pack(ctx context.Context, progress Progress) (list []packed, err error) {
	if err := g.to.Flush(); err != nil {
		return nil, err
	}
	nodes, builder := bufio.NewReaderSize(io.NewSectionReader(g.scratch, 0, g.raw), 1<<20), casstore.NewPackBuilder()
	finish := func() error {
		header, body, err := builder.Finish()
		if err != nil {
			return err
		}
		whole := append(header, body...)
		list = append(list, packed{header: int64(len(header)), body: int64(len(body)), sum: sha256.Sum256(whole)})
		g.packed += int64(len(whole))
		_, err = g.scratch.Write(whole)
		builder.Reset()
		progress("packing", int64(len(list)), int64(g.packs))
		return err
	}
	for _, size := range g.sizes {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		b := make([]byte, size)
		if _, err := io.ReadFull(nodes, b); err != nil {
			return nil, err
		}
		n, err := casstore.DecodeNode(b)
		if err != nil {
			return nil, err
		}
		if g.packOf[casstore.SumNode(b)] != len(list) {
			if err := finish(); err != nil {
				return nil, err
			}
		}
		for _, to := range n.Refs {
			if to.Kind() == casstore.KindNode {
				builder.Locate(g.located(to))
			}
		}
		builder.Add(b, n.Refs)
	}
	return list, finish()
}
