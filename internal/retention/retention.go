// Package retention decides which sessions have been kept long enough. Policies are data; whoever carries a plan out deletes
// sessions as a person would, so that one in which somebody works is never taken.
package retention

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Policy is a rule about the sessions that its patterns match; an empty pattern matches all, and * in one any text. A session is
// under the first policy that matches it, so that one without limits keeps what later ones would take.
type Policy struct {
	Name string `json:"name"`

	// Patterns.
	Session string `json:"session,omitempty"`
	Cwd     string `json:"cwd,omitempty"`
	Harness string `json:"harness,omitempty"`
	Title   string `json:"title,omitempty"`

	MaxAge   time.Duration `json:"max_age_ns,omitempty"` // since something happened in it, by the store's clock; 0 = any
	MaxBytes int64         `json:"max_bytes,omitempty"`  // of the entries of all sessions under the policy together: the oldest go; 0 = any
	// of each working directory so many, the newest, stay in any case; without a limit the others go; 0 = none
	KeepLast int `json:"keep_last,omitempty"`
}

// Validate reports everything that is wrong with policies.
func Validate(policies []Policy) error {
	var errs []error
	names := map[string]bool{}
	for i, p := range policies {
		bad := func(format string, args ...any) {
			errs = append(errs, fmt.Errorf("policy %d %q: %s", i+1, p.Name, fmt.Sprintf(format, args...)))
		}
		if p.Name == "" {
			bad("it has no name: the report says by its name why a session goes")
		}
		if names[p.Name] {
			bad("another one has that name")
		}
		names[p.Name] = true
		if p.MaxAge < 0 || p.MaxBytes < 0 || p.KeepLast < 0 {
			bad("a limit is negative; leave it out for none")
		}
	}
	return errors.Join(errs...)
}

// Session is what a policy looks at.
type Session struct {
	ID, Cwd, Harness, Title string

	Modified int64 // when something happened in it last, by the store's clock, Unix milliseconds; 0 = unknown: then age takes it not
	Bytes    int64 // of its entries as they came
	Active   bool  // somebody works in it, it waits for a person, or another session needs it
}

// Due is a session that is to go.
type Due struct {
	Session  string `json:"session"`
	Policy   string `json:"policy"`
	Why      string `json:"why"`
	Modified int64  `json:"modified_ms"`
	Bytes    int64  `json:"bytes"`
}

// ErrBrake: a plan looks wrong, and is not carried out.
var ErrBrake = errors.New("not applied")

// few is how many sessions may go whatever share that is: a small store is soon all due.
const few = 10

// DefaultShare is the most that may go at a time of all sessions.
const DefaultShare = 0.3

// Brake is an ErrBrake if too many sessions would go at a time: a clock that jumped, or a policy that says what nobody meant. share is
// the most of all sessions, 0 to 1; 0 = DefaultShare.
func Brake(due, all int, share float64) error {
	share = cmp.Or(share, DefaultShare)
	if due <= few || float64(due) <= share*float64(all) {
		return nil
	}
	return fmt.Errorf("%w: %d of %d sessions would go, more than %.0f %%; look at spool retention report, and to go on raise the share: "+
		"spool retention apply --share, --retention-share of the daemons", ErrBrake, due, all, 100*share)
}

// MaxSkew is how far the clock of whoever applies policies may be from the store's.
const MaxSkew = 5 * time.Minute

// CheckClocks is an ErrBrake if the two clocks differ by more than MaxSkew: one of them is wrong, and it may be the store's.
func CheckClocks(store, here time.Time) error {
	if d := here.Sub(store); d.Abs() > MaxSkew {
		return fmt.Errorf("%w: the store's clock says %s, this host's %s; they differ by %v, and %v is the most: set the one that is wrong",
			ErrBrake, store.UTC().Format(time.RFC3339), here.UTC().Format(time.RFC3339), d.Round(time.Second), MaxSkew)
	}
	return nil
}

// Plan is the sessions that are to go, oldest first. Active ones count as kept. now is the store's time.
func Plan(policies []Policy, all []Session, now time.Time) []Due {
	under := make([][]Session, len(policies))
	for _, s := range all {
		if i := slices.IndexFunc(policies, func(p Policy) bool { return p.matches(s) }); i >= 0 {
			under[i] = append(under[i], s)
		}
	}
	var due []Due
	for i, p := range policies {
		due = append(due, p.plan(under[i], now)...)
	}
	slices.SortFunc(due, func(a, b Due) int {
		return cmp.Or(cmp.Compare(a.Modified, b.Modified), cmp.Compare(a.Session, b.Session))
	})
	return due
}

// plan takes sessions newest first.
func (p Policy) plan(list []Session, now time.Time) (due []Due) {
	slices.SortFunc(list, func(a, b Session) int {
		return cmp.Or(cmp.Compare(b.Modified, a.Modified), cmp.Compare(a.ID, b.ID))
	})
	kept, bytes := map[string]int{}, int64(0)
	for _, s := range list {
		kept[s.Cwd]++
		why := p.why(s, kept[s.Cwd], bytes, now)
		if why == "" || s.Active {
			bytes += s.Bytes
			continue
		}
		due = append(due, Due{s.ID, p.Name, why, s.Modified, s.Bytes})
	}
	return due
}

// why is the reason for which a session goes, the nth of its directory, behind newer ones of so many bytes; "" if it stays.
func (p Policy) why(s Session, nth int, bytes int64, now time.Time) string {
	age := now.Sub(time.UnixMilli(s.Modified))
	switch {
	case nth <= p.KeepLast:
		return ""
	case p.MaxAge > 0 && s.Modified != 0 && age > p.MaxAge:
		return fmt.Sprintf("older than %v", p.MaxAge)
	case p.MaxBytes > 0 && bytes+s.Bytes > p.MaxBytes:
		return fmt.Sprintf("more than %d bytes with the newer ones", p.MaxBytes)
	case p.KeepLast > 0 && p.MaxAge == 0 && p.MaxBytes == 0:
		return fmt.Sprintf("not among the last %d of its directory", p.KeepLast)
	}
	return ""
}

func (p Policy) matches(s Session) bool {
	return glob(p.Session, s.ID) && glob(p.Cwd, s.Cwd) && glob(p.Harness, s.Harness) && glob(p.Title, s.Title)
}

// glob reports whether a pattern matches a text: * stands for any run of characters, the rest for itself.
func glob(pattern, text string) bool {
	if pattern == "" {
		return true
	}
	star, mark := -1, 0 // the last * of the pattern, and up to where of the text it reaches
	p, t := 0, 0
	for t < len(text) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, t
			p++
		case p < len(pattern) && pattern[p] == text[t]:
			p, t = p+1, t+1
		case star >= 0:
			mark++
			p, t = star+1, mark
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}
