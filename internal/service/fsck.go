package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"

	"spool/internal/artifactstore"
	"spool/internal/fsck"
	"spool/internal/gc"
	"spool/internal/gc/gcnats"
	"spool/internal/natsadmin"
	"spool/internal/natsio"
	"spool/internal/record"
	"spool/internal/scrub"
	"spool/pkg/artifacts"
	"spool/pkg/events"
)

// Fsck looks at everything, and with repair mends what it can. It searches for what no record names if records were lost;
// what it did, and that it found nothing, ends the alarms that it ends. The report is good beside an error of that.
func Fsck(ctx context.Context, conn *natsio.Conn, cfg fsck.Config, repair bool) (rep *fsck.Report, err error) {
	sys := natsadmin.Of(conn)
	if cfg.Lost, err = recordsLost(ctx, conn); err != nil && !errors.Is(err, record.ErrDenied) { // who may not ask clears nothing
		return nil, err
	}
	if repair {
		rep, err = fsck.Fix(ctx, sys, sys, conn.Store(0), cfg)
	} else {
		rep, err = fsck.Check(ctx, sys, cfg)
	}
	if err != nil {
		return nil, err
	}
	rep.Gone = filesGone(ctx, rep.Files)
	if repair {
		if err := scrub.Repaired(ctx, sys); err != nil {
			return rep, fmt.Errorf("note the repair: %w", err)
		}
	}
	if len(rep.Findings) == 0 {
		// Who may only read has looked, too; it stands until somebody else does.
		if err := scrub.Cleared(ctx, sys, cfg.Lost != ""); err != nil && !errors.Is(err, record.ErrDenied) {
			return rep, fmt.Errorf("clear what was found before: %w", err)
		}
	}
	return rep, nil
}

// filesGone names the registered files of this machine that are not there, or not as they were. Only the machine that a
// file is on can tell.
func filesGone(ctx context.Context, files []artifacts.Record) (gone []fsck.Finding) {
	for _, r := range files {
		f := fsck.Finding{Record: events.ArtifactKey(r.Session, string(r.ID))}
		switch err := artifactstore.CheckFile(ctx, r); {
		case errors.Is(err, fs.ErrNotExist):
			f.Kind, f.Detail = "gone", fmt.Sprintf("the file %q of this machine is not there: put it back, or remove the artifact with: "+
				"spool artifact rm %s",
				artifactstore.FilePath(r), r.ID)
		case errors.Is(err, artifacts.ErrChanged):
			f.Kind, f.Detail = "changed", err.Error()
		default:
			continue
		}
		gone = append(gone, f)
	}
	return gone
}

// recordsLost says what is known of records that were lost; "": none were.
func recordsLost(ctx context.Context, conn *natsio.Conn) (why string, err error) {
	sys := natsadmin.Of(conn)
	if why, err = scrub.RecordsLost(ctx, sys); err != nil || why != "" {
		return why, err
	}
	marks, err := scrub.ReadMarks(ctx, sys)
	if err != nil {
		return "", err
	}
	missed, err := gc.FactsLost(ctx, gcnats.Of(conn), conn.Records(), marks.Generation)
	if errors.Is(err, record.ErrNotFound) { // nothing remembers a cycle
		err = nil
	}
	return cmp.Or(why, missed), err
}
