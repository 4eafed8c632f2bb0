package interchange

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"spool/internal/artifactstore"
	"spool/internal/natsio"
	"spool/internal/transcript"
	"spool/pkg/artifacts"
	"spool/pkg/client"
	"spool/pkg/events"
)

// Import imports sources, of whatever harness, and with session files of oh-my-pi the blobs that their entries refer to and
// the artifacts beside them. notes are about what a session export left beside a file (Restore); the error is the context's
// or that of a store which cannot be reached, and importing again goes on where it stopped.
//
//  1. For each file, undo what an export did to its entries.
//  2. Blobs before the entries that refer to them: the persister holds those for them that it finds.
//  3. Artifacts when the session is there.
//  4. What the user changed in the header of an exported file, where the entries do not say it.
//  5. What lies beside the files, as artifacts.
func Import(
	ctx context.Context, conn *natsio.Conn, sources []transcript.Source, cfg transcript.Config,
) (res transcript.Result, notes []string, err error) {
	return new(Importer).Import(ctx, conn, sources, cfg)
}

// Importer is for who imports again and again: it remembers what it saw beside sessions' files. The zero value is ready. One call at a time.
type Importer struct {
	sidecars map[string]map[string][]artifacts.Record // by session and place
}

// Import is the function of that name.
func (im *Importer) Import(
	ctx context.Context, conn *natsio.Conn, sources []transcript.Source, cfg transcript.Config,
) (res transcript.Result, notes []string, err error) {
	var told told
	files := slices.DeleteFunc(slices.Clone(sources), func(s transcript.Source) bool { return transcript.IsBeside(s.Path) })
	restored := make([]transcript.Source, len(files))
	for i, s := range files {
		if restored[i], err = Restore(s, told.add); err != nil {
			told.add(err)
		}
	}
	cfg.Place = PlaceOf
	cfg.Blobs = &Blobs{Store: conn.Store(0)}
	written := writtenBefore(ctx, conn, restored, cfg.Dialect)
	cl := client.New(conn)
	cfg.SessionExport = func(ctx context.Context, t events.Thread, w io.Writer) error { return writeThread(ctx, cl, t, w) }
	cfg.Said = func(ctx context.Context, session string) (time.Time, error) { return said(ctx, conn, cl, session) }
	letters := newestLetter(ctx, conn, cfg.Retry)
	res = transcript.New(cl.Internal(), conn.Events(), cfg).Import(ctx, restored)
	res.Letters = letters
	if err = adopt(ctx, artifactstore.Of(conn, 0), restored, res); err == nil {
		err = takeHeaders(ctx, conn, restored, res, written)
	}
	if len(files) < len(sources) {
		err = errors.Join(err, im.takeBeside(ctx, artifactstore.Of(conn, 0), cl, sources, &res))
	}
	return res, told.all, err
}

// adopt registers the artifacts of every session that was imported, and notes with its file what there is to say of them.
func adopt(ctx context.Context, reg Registry, sources []transcript.Source, res transcript.Result) error {
	for i, src := range sources {
		f := &res.Files[i]
		if f.Harness != ompDialect || f.Err != nil || f.Thread != events.MainThread {
			continue
		}
		got, err := Artifacts(ctx, reg, src, f.Session)
		if err != nil {
			return fmt.Errorf("artifacts of %s: %w", f.File, err)
		}
		f.Artifacts = got.New + got.Old
		for _, w := range got.Warnings {
			f.Warnings = append(f.Warnings, w.Error())
		}
	}
	return nil
}

// told collects what is told by several goroutines, each thing once.
type told struct {
	mu  sync.Mutex
	all []string
}

func (s *told) add(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if text := err.Error(); !slices.Contains(s.all, text) {
		s.all = append(s.all, text)
	}
}
