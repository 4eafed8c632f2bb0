package persist

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"

	"spool/internal/apply"
	"spool/internal/record"
	"spool/pkg/events"
)

// fetch redeems a claim check whose body fits into memory.
func (p *Persister) fetch(ctx context.Context, s *staged) (body []byte, err error) {
	err = p.retry(ctx, "fetch a body", func() error {
		r, err := p.openBody(ctx, s)
		if err != nil {
			return err
		}
		b := bytes.NewBuffer(make([]byte, 0, s.event.Ref.Size+bytes.MinRead))
		_, err = b.ReadFrom(r)
		body = b.Bytes()
		return err
	})
	return body, err
}

// openBody reads a claim check's body from its beginning.
func (p *Persister) openBody(ctx context.Context, s *staged) (io.Reader, error) {
	r, err := p.Inbox.OpenBody(ctx, *s.event.Ref)
	if errors.Is(err, record.ErrNotFound) {
		return nil, fmt.Errorf("%w: %s is not there: publish the event again", apply.ErrBody, s.event.Ref.Object)
	}
	if err != nil {
		return nil, err
	}
	return &body{r: r, ref: *s.event.Ref, sum: sha256.New(), working: s.msg.Working, told: time.Now()}, nil
}

// body trusts nothing that a claim check says (SPEC B1): reading fails with apply.ErrBody where the bytes are more, fewer or
// others than those.
type body struct {
	r       io.Reader
	ref     events.BodyRef
	size    int64 // bytes so far
	sum     hash.Hash
	working func() error // nil: nobody waits
	told    time.Time    // when working was called
}

// workingEvery keeps an event that takes long from being given to somebody else as well.
const workingEvery = 5 * time.Second

func (b *body) Read(p []byte) (int, error) {
	if b.working != nil && time.Since(b.told) > workingEvery {
		_ = b.working() // when it is lost the event comes twice, and is applied once
		b.told = time.Now()
	}
	n, err := b.r.Read(p)
	b.sum.Write(p[:n])
	b.size += int64(n)
	switch end := errors.Is(err, io.EOF); {
	case b.size > b.ref.Size:
		return 0, fmt.Errorf("%w: %s has more than the %d bytes that the event says", apply.ErrBody, b.ref.Object, b.ref.Size)
	case end && b.size < b.ref.Size:
		return 0, fmt.Errorf("%w: %s has %d bytes, the event says %d", apply.ErrBody, b.ref.Object, b.size, b.ref.Size)
	case end && [sha256.Size]byte(b.sum.Sum(nil)) != b.ref.Sum:
		return 0, fmt.Errorf("%w: %s has another hash than the event says", apply.ErrBody, b.ref.Object)
	case errors.Is(err, record.ErrNotFound):
		return 0, fmt.Errorf("%w: %w", apply.ErrBody, err)
	}
	return n, err
}
