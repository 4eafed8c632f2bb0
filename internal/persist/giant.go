package persist

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"spool/internal/apply"
	"spool/internal/jsonscan"
	"spool/internal/record"
	"spool/pkg/casstore"
	"spool/pkg/dialect"
	"spool/pkg/events"
	"spool/pkg/truncate"
)

// A giant entry goes through in bounded memory, in two passes over its body (DESIGN 13.9):
//
//	scan    find what the size rules do to it, and how long the text will be that they leave
//	upload  read it again: the text stays here, the whole entry and its large images go to the blobs' bucket
//
// From then on it is an entry like any other; its blobs are uploaded already when it is committed. What is uploaded
// exists for nobody until the commit's records name it: a crash before leaves bytes that gc takes, and the event, which was
// not acked, comes again and is read from its beginning.

// What a giant needs in memory while it is read, beside its text.
const (
	scanRoom   = 8 << 20
	uploadRoom = 24 << 20 // the windows of the body, of the whole entry and of one image, and the small images

	smallBlob  = 256 << 10 // bytes of an image that is not worth an upload of its own
	smallBlobs = 8 << 20   // of such images together, in one entry
)

// giant tells whether an event goes through as a stream.
func (p *Persister) giant(e *events.Event) bool {
	from := p.cfg.StreamBytes
	if !dialect.IsJSON(e.Dialect) {
		from = apply.RawLimit
	}
	return e.Kind == events.KindEntry && e.Ref != nil && e.Ref.Size > from
}

// stream stages a giant. Its share of the queue is that of what it holds in memory. What it holds is given back between the
// passes, so that giants do not wait for each other's room.
func (p *Persister) stream(ctx context.Context, s *staged) error {
	if err := p.reserve(ctx, s, scanRoom); err != nil {
		return err
	}
	text := int64(apply.RawText)
	if dialect.IsJSON(s.event.Dialect) {
		if err := p.scan(ctx, s); err != nil {
			return err
		}
		text = s.plan.TextSize
	}
	if err := p.fits(s, text, s.event.Cuts.Externalized); err != nil {
		return err
	}
	p.space.release(s)
	if err := p.reserve(ctx, s, text+uploadRoom); err != nil {
		return err
	}
	if err := p.upload(ctx, s); err != nil {
		return err
	}
	p.shrink(s)
	return nil
}

// scan is the first pass.
func (p *Persister) scan(ctx context.Context, s *staged) error {
	err := p.retry(ctx, "scan a body", func() error {
		r, err := p.openBody(ctx, s)
		if err == nil {
			s.plan, err = truncate.Scan(p.cleaned(s, r), apply.SizeRules(s.event.Dialect, p.cfg.Cuts))
			err = ofAll(r, err)
		}
		return err
	})
	if err != nil {
		return passed(err)
	}
	s.event.Cuts.Summary = s.plan.Summary
	return nil
}

// ofAll is what a pass says of a body, once all of it is read: of what came of it before, nobody knows that it is the body's. Where an
// answer was lost, the rest can look like no JSON.
func ofAll(r io.Reader, err error) error {
	for _, verdict := range []error{jsonscan.ErrSyntax, jsonscan.ErrDepth, truncate.ErrTooManyEdits, truncate.ErrChanged} {
		if errors.Is(err, verdict) {
			if _, rest := io.Copy(io.Discard, r); rest != nil {
				return rest
			}
			return err
		}
	}
	return err
}

// upload is the second pass. The fence is read before a byte is uploaded (DESIGN 8, step 0): if a collector has moved it
// when the entry is committed, what was uploaded may be taken for garbage, and the pass is made again.
func (p *Persister) upload(ctx context.Context, s *staged) error {
	err := p.retry(ctx, "upload a body", func() error {
		p.drop(ctx, s)
		if err := p.At(StepUpload); err != nil {
			return err
		}
		var err error
		if s.fence, err = p.Records.Fence(ctx, p.cfg.Lane); err != nil {
			return err
		}
		r, err := p.openBody(ctx, s)
		if err != nil {
			return err
		}
		if s.plan == nil {
			return p.uploadRaw(ctx, s, p.cleaned(s, r))
		}
		return ofAll(r, p.apply(ctx, s, p.cleaned(s, r)))
	})
	if err != nil {
		p.drop(ctx, s)
		return passed(err)
	}
	return nil
}

// apply makes the edits of the plan.
func (p *Persister) apply(ctx context.Context, s *staged, r io.Reader) error {
	text := bytes.NewBuffer(make([]byte, 0, s.plan.TextSize))
	images := &images{ctx: ctx, p: p, s: s, seen: map[string]bool{}}
	if !s.plan.Lossy {
		err := s.plan.Apply(r, text, nil, images)
		s.event.Text = text.Bytes()
		return err
	}
	full := p.Bulk.NewBlob(ctx)
	if err := s.plan.Apply(r, text, full, images); err != nil {
		full.Abort()
		return err
	}
	s.event.Text = text.Bytes()
	return s.keepFull(full)
}

// keepFull ends the upload of the entry as it was before the cuts (SPEC T9).
func (s *staged) keepFull(up record.Upload) error {
	o, err := up.Commit()
	if err == nil {
		s.event.Full = casstore.BlobRef(o.Sum)
		s.ahead = append(s.ahead, &uploaded{ref: s.event.Full, object: o})
	}
	return err
}

func (p *Persister) uploadRaw(ctx context.Context, s *staged, r io.Reader) error {
	full := p.Bulk.NewBlob(ctx)
	r = io.TeeReader(r, full)
	head := make([]byte, apply.RawText)
	_, err := io.ReadFull(r, head)
	if err == nil {
		_, err = io.Copy(io.Discard, r)
	}
	if err != nil {
		full.Abort()
		return err
	}
	s.event.Text, s.event.Cuts.Summary = apply.CutRaw(head), truncate.Summary{Truncated: 1}
	return s.keepFull(full)
}

// errHalt: the event cannot be staged, and it is not the event's fault. Nothing behind it may be applied before it.
var errHalt = errors.New("cannot go on")

// passed says what an error of a pass means: for the event, or for the persister.
func passed(err error) error {
	switch {
	case errors.Is(err, apply.ErrBody), errors.Is(err, truncate.ErrTooManyEdits):
		return err
	case errors.Is(err, jsonscan.ErrSyntax), errors.Is(err, jsonscan.ErrDepth):
		return apply.NotJSON(err)
	case errors.Is(err, truncate.ErrChanged):
		return fmt.Errorf("%w: %w", apply.ErrBody, err)
	}
	return fmt.Errorf("%w: %w", errHalt, err)
}

// renew uploads again what was uploaded behind another fence than the commit's.
func (p *Persister) renew(ctx context.Context, batch []*staged, fence record.Fence) error {
	for _, s := range batch {
		if s.bad != nil || s.fence == fence || !s.uploads() {
			continue
		}
		p.Log.Info("uploading an entry again: a collector runs", "thread", s.event.Thread, "bytes", s.event.Ref.Size)
		err := p.upload(ctx, s)
		if ctx.Err() != nil || errors.Is(err, errHalt) {
			return err
		}
		s.bad = err
	}
	return nil
}

// uploaded is a blob whose bytes are in the bucket before the commit.
type uploaded struct {
	ref    casstore.Ref
	object record.Object
	named  bool // a commit was tried whose records name it: it may exist
}

func (s *staged) uploads() bool { return len(s.ahead) > 0 }

// uploaded is what was uploaded ahead under that ref.
func (s *staged) uploaded(ref casstore.Ref) *uploaded {
	for _, up := range s.ahead {
		if up.ref == ref {
			return up
		}
	}
	return nil
}

// drop removes what was uploaded for an event and no record names: there was the same blob already, or the event is not
// applied. What stays after a crash here is gc's.
func (p *Persister) drop(ctx context.Context, s *staged) {
	for _, up := range s.ahead {
		if !up.named && ctx.Err() == nil {
			p.dropUpload(ctx, up)
		}
	}
	s.event.Blobs, s.event.Full, s.ahead = nil, casstore.Ref{}, nil
}

func (p *Persister) dropUpload(ctx context.Context, up *uploaded) {
	if err := p.Bulk.DropBlob(ctx, up.object); err != nil {
		p.Log.Warn("drop an upload", "ref", up.ref, "error", err)
	}
}

// images takes what Apply moves out of an entry: small ones into memory, up to a bound, and others into the bucket.
type images struct {
	ctx  context.Context
	p    *Persister
	s    *staged
	held int64
	seen map[string]bool
}

// NewBlob implements truncate.Blobs.
func (im *images) NewBlob(ref string, size int64) (truncate.BlobWriter, error) {
	if im.seen[ref] {
		return nil, nil
	}
	im.seen[ref] = true
	parsed, err := casstore.ParseRef(ref)
	if err != nil {
		return nil, err
	}
	if size <= smallBlob && im.held+size <= smallBlobs {
		im.held += size
		return &heldImage{im.s, parsed, bytes.NewBuffer(make([]byte, 0, size))}, nil
	}
	return &sentImage{im.p.Bulk.NewBlob(im.ctx), im, parsed}, nil
}

type heldImage struct {
	s   *staged
	ref casstore.Ref
	*bytes.Buffer
}

// Commit implements truncate.BlobWriter.
func (h *heldImage) Commit() error {
	if casstore.SumBlob(h.Bytes()) != h.ref {
		return truncate.ErrChanged
	}
	h.s.event.Blobs = append(h.s.event.Blobs, apply.Blob{Ref: h.ref, Bytes: h.Bytes()})
	return nil
}

// Abort implements truncate.BlobWriter.
func (h *heldImage) Abort() {}

type sentImage struct {
	record.Upload
	im  *images
	ref casstore.Ref
}

// Commit implements truncate.BlobWriter.
func (w *sentImage) Commit() error {
	o, err := w.Upload.Commit()
	if err != nil {
		return err
	}
	w.im.s.event.Blobs = append(w.im.s.event.Blobs, apply.Blob{Ref: w.ref})
	w.im.s.ahead = append(w.im.s.ahead, &uploaded{ref: w.ref, object: o})
	if casstore.BlobRef(o.Sum) != w.ref {
		return truncate.ErrChanged
	}
	return nil
}
