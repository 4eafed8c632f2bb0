package artifacts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"spool/internal/family"
)

// Registry is the records of artifacts.
type Registry interface {
	// Records lists those with this session and id, in any order; "" matches every session, every id. Where some cannot be read,
	// the others come beside an ErrRecord that names these.
	Records(ctx context.Context, session string, id ID) ([]Record, error)
	// Remove deletes a record, durably. Bytes that no other record names are the store's to free (SPEC A7). Removing what
	// is gone already is no error, so that a cleanup cut short can be repeated.
	Remove(ctx context.Context, r Record) error
}

var (
	// ErrNoSession: a cleanup named neither a session nor every session.
	ErrNoSession = family.Invalid.New("session id is empty: name a session, or ask for every session")
	// ErrNotFound: there is no such artifact, output or blob.
	ErrNotFound = family.NotFound.New("not found")
)

// refusal is an error whose text is a promise, word for word, and whose kind a caller decides on.
type refusal struct {
	kind error
	text string
}

func refuse(kind error, format string, args ...any) error {
	return refusal{kind, fmt.Sprintf(format, args...)}
}

func (e refusal) Error() string { return e.text }
func (e refusal) Unwrap() error { return e.kind }

// Cleanup says which artifacts to remove (SPEC A5). The zero value removes nothing: it has no session and is a dry run.
type Cleanup struct {
	Session      string
	EverySession bool
	Apply        bool      // remove; otherwise only report what would be removed
	IncludeAll   bool      // normal artifacts too
	OlderThan    time.Time // only those created before; zero = any age
	// MaxBytes, if set, leaves out each artifact of at most this size, and those whose size is unknown.
	MaxBytes *int64
}

// Why an artifact is a candidate.
const (
	ReasonDebug = "debug_artifact_cleanup"
	ReasonRaw   = "raw_artifact_cleanup"
	ReasonSize  = "artifact_size_limit" // a normal one that is over MaxBytes
	ReasonAll   = "include_all"
)

// Candidate is an artifact to be removed.
type Candidate struct {
	Record Record
	Reason string
}

// Failure is a candidate that could not be removed or, without an ID, records that cannot be read, so that nobody knows
// whether they would be candidates.
type Failure struct {
	ID  ID
	Err error
}

// Report is what a cleanup would remove, and what it has removed.
type Report struct {
	DryRun     bool
	Candidates []Candidate
	Deleted    []ID // in the order of Candidates; none in a dry run
	Failures   []Failure
}

// Clean carries a cleanup out. Dry run and real one have the same candidates: Plan's. A failure does not keep it from the
// other candidates. A crash half-way leaves the rest to the next cleanup.
func Clean(ctx context.Context, reg Registry, c Cleanup) (Report, error) {
	if c.Session == "" && !c.EverySession {
		return Report{}, ErrNoSession
	}
	session := c.Session
	if c.EverySession {
		session = ""
	}
	report := Report{DryRun: !c.Apply}
	records, err := reg.Records(ctx, session, "")
	switch {
	case errors.Is(err, ErrRecord):
		report.Failures = append(report.Failures, Failure{Err: err})
	case err != nil:
		return Report{}, fmt.Errorf("clean up artifacts: list: %w", err)
	}
	report.Candidates = c.plan(records)
	if !c.Apply {
		return report, nil
	}
	for _, candidate := range report.Candidates {
		id := candidate.Record.ID
		if err := ctx.Err(); err != nil {
			return report, fmt.Errorf("clean up artifacts: %w", err)
		}
		if err := reg.Remove(ctx, candidate.Record); err != nil {
			report.Failures = append(report.Failures, Failure{id, fmt.Errorf("failed to delete artifact: %s: %w", id, err)})
			continue
		}
		report.Deleted = append(report.Deleted, id)
	}
	return report, nil
}

// plan is the candidates among records, ordered by time of creation, then id.
func (c Cleanup) plan(records []Record) []Candidate {
	var plan []Candidate
	for _, r := range records {
		if c.selects(r) {
			plan = append(plan, Candidate{r, c.reason(r)})
		}
	}
	slices.SortFunc(plan, func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(a.Record.Created, b.Record.Created), cmp.Compare(a.Record.ID, b.Record.ID))
	})
	return plan
}

func (c Cleanup) selects(r Record) bool {
	switch {
	case !c.EverySession && r.Session != c.Session:
		return false
	case !c.IncludeAll && r.Category == Normal:
		return false
	case !c.OlderThan.IsZero() && !time.UnixMilli(r.Created).Before(c.OlderThan):
		return false
	}
	return c.MaxBytes == nil || r.Size != UnknownSize && r.Size > *c.MaxBytes
}

func (c Cleanup) reason(r Record) string {
	switch {
	case r.Category == ProviderRaw:
		return ReasonRaw
	case r.Category != Normal:
		return ReasonDebug
	case c.MaxBytes != nil:
		return ReasonSize
	}
	return ReasonAll
}

// Delete removes one artifact. An id that is not in the registry is ErrNotFound.
func Delete(ctx context.Context, reg Registry, id ID) error {
	if id == "" {
		return refuse(ErrNotFound, "artifact not found: %s", id) // to the registry it would be every one
	}
	records, err := reg.Records(ctx, "", id)
	if err != nil {
		return fmt.Errorf("delete artifact %s: %w", id, err)
	}
	if len(records) == 0 {
		return refuse(ErrNotFound, "artifact not found: %s", id)
	}
	for _, r := range records {
		if err := reg.Remove(ctx, r); err != nil {
			return fmt.Errorf("failed to delete artifact: %s: %w", id, err)
		}
	}
	return nil
}
