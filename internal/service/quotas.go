package service

import (
	"cmp"
	"errors"
	"fmt"

	"spool/internal/apply"
	"spool/internal/quota"
)

// Rates are the flags that say how fast entries may be stored over HTTP.
type Rates struct {
	RateSession string `env:"SPOOL_RATE_SESSION" placeholder:"RATE" help:"What one session may store over HTTP: entries, bytes or both a second, as in 200/s,4MiB/s (default any)."`
	RateUser    string `env:"SPOOL_RATE_USER" placeholder:"RATE" help:"What one user of a token may (default any)."`
	RateToken   string `env:"SPOOL_RATE_TOKEN" placeholder:"RATE" help:"What may be stored with one token (default any)."`

	TokenSessions int `env:"SPOOL_TOKEN_SESSIONS" least:"-1" placeholder:"N" help:"Sessions that may be stored to with one token in an hour (default 100000; -1: any number)."`
}

// tokenSessions is how many sessions may be stored to with one token in an hour: it stops a flood, and nothing else.
const tokenSessions = 100_000

// Open makes the quotas; nil if there are none.
func (r Rates) Open() (*quota.Limiter, error) {
	var rates quota.Rates
	var errs []error
	for _, f := range []struct {
		flag, text string
		to         *quota.Rate
	}{
		{"session", r.RateSession, &rates.Session}, {"user", r.RateUser, &rates.User}, {"token", r.RateToken, &rates.Token},
	} {
		rate, err := quota.ParseRate(f.text)
		if err != nil {
			errs = append(errs, fmt.Errorf("--rate-%s: %w", f.flag, err))
		}
		*f.to = rate
	}
	if errs != nil {
		return nil, UsageError{Err: errors.Join(errs...)}
	}
	rates.Sessions = max(0, cmp.Or(r.TokenSessions, tokenSessions))
	return quota.New(rates), nil
}

// Limits are the flags that say what a session may have.
type Limits struct {
	SessionThreads   int64 `env:"SPOOL_SESSION_THREADS" least:"-1" placeholder:"N" help:"Threads that a session may have (default 10000; -1: any number)."`
	SessionProducers int64 `env:"SPOOL_SESSION_PRODUCERS" least:"-1" placeholder:"N" help:"Producers that may be new to one of its threads (default 100000; -1: any number)."`
}

// Limits is what the flags say.
func (l Limits) Limits() apply.Limits {
	return apply.Limits{Threads: l.SessionThreads, Producers: l.SessionProducers}
}

// Users is the flag that says what a user may have.
type Users struct {
	UserSessions int64 `env:"SPOOL_USER_SESSIONS" placeholder:"N" help:"Sessions that a user may have begun that are there (default any)."`
}

// With is the limits with that of users.
func (u Users) With(l apply.Limits) apply.Limits {
	l.Sessions = u.UserSessions
	return l
}
