package httpapi

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"

	"spool/internal/access"
	"spool/internal/view"
	"spool/pkg/client"
)

func (a *api) streamHeads(w http.ResponseWriter, r *http.Request) error {
	session, err := asked(r)
	if err != nil {
		return err
	}
	rev, err := revision(r)
	if err != nil {
		return err
	}
	feed, err := a.hub.join(r.Context(), headFeed{session})
	if err != nil {
		return err
	}
	defer feed.close()
	grant := access.From(r.Context())
	out, ctx := startSSE(w), r.Context()
	give := func(at uint64, session string, data []byte) error {
		if at <= rev && rev != 0 || !grant.Session(session) {
			return nil
		}
		rev = max(rev, at)
		return out.send(eventHead, strconv.FormatUint(rev, 10), data)
	}
	stored := func() error {
		moves, err := a.cfg.Client.Session(session).HeadsSince(ctx, rev)
		if err != nil {
			return err
		}
		slices.SortFunc(moves, func(a, b client.Move) int { return cmp.Compare(a.Rev, b.Rev) })
		for _, m := range moves {
			if err := give(m.Rev, m.Session, encode(view.OfThread(m.Thread))); err != nil {
				return err
			}
		}
		return nil
	}
	if rev != 0 || isSet(r, "current") {
		err = stored()
	}
	return a.follow(ctx, out, feed, err, stored, func(m *moment) error { return give(m.seq, m.thread.Session, m.data) })
}
