package view

import (
	"context"
	"errors"
	"fmt"

	"spool/internal/record"
	"spool/pkg/client"
	"spool/pkg/sessions"
	"spool/pkg/threads"
)

// FindSession is the id of the session that a name means: the name itself, or the only id that begins so, letter case aside,
// of those that sees reports. To who may not look, it is the name. Errors wrap client.ErrSessionNotFound, or are a
// *sessions.AmbiguousError, or a
// *client.Renamed.
func FindSession(ctx context.Context, cl *client.Client, name string, sees func(session string) bool) (string, error) {
	if sees(name) {
		switch err := cl.Session(name).Await(ctx); {
		case errors.Is(err, record.ErrDenied):
			return name, nil
		case !IsAbsent(err):
			return name, err
		}
	}
	all, err := cl.Internal().SessionsBeginning(ctx, name)
	if err != nil {
		return "", err
	}
	var rows []sessions.Row
	for _, s := range all {
		if sees(s.ID) {
			rows = append(rows, s.Row())
		}
	}
	row, err := sessions.Resume(rows, "", name)
	if errors.Is(err, sessions.ErrNoSession) {
		return "", fmt.Errorf("%w: %s", client.ErrSessionNotFound, name)
	}
	return row.ID, err
}

// IsAbsent reports an error that says that there is no thread or session of a name; of one that was renamed, the error
// says the new one.
func IsAbsent(err error) bool {
	return (errors.Is(err, threads.ErrNoThread) || errors.Is(err, client.ErrSessionNotFound)) &&
		!errors.As(err, new(*client.Renamed)) && !errors.Is(err, client.ErrBehind)
}
