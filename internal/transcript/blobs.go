package transcript

import (
	"bytes"
	"context"
	"fmt"

	"spool/internal/rehydrate"
	"spool/pkg/casstore"
)

// refMark is in every entry that refers to a blob.
var refMark = []byte("blob:sha256:")

// fetch brings the blobs that a record refers to, before it is published: the persister then holds them for its entry. One
// that cannot be had is said once a file, and its ref stays in place (SPEC T10).
func (im *Importer) fetch(ctx context.Context, f *file, r record) error {
	if im.cfg.Blobs == nil || f.id.Dialect != "omp" || !r.json || !bytes.Contains(r.body, refMark) {
		return nil
	}
	for _, ref := range rehydrate.Refs(r.body) {
		if f.refs[ref] {
			continue
		}
		if f.refs == nil {
			f.refs = map[casstore.Ref]bool{}
		}
		f.refs[ref] = true
		err := im.cfg.Blobs.Fetch(ctx, f.src, ref)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			f.res.MissingBlobs++
			f.warn(fmt.Sprintf("line %d: %v", r.line, err))
		default:
			f.res.Blobs++
		}
	}
	return nil
}
