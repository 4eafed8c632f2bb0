package client

import (
	"encoding/base64"
	"fmt"

	"spool/internal/natsio"
	"spool/pkg/sessions"
)

// place is where a page ended, by the order of the listing in a block, how far down the block goes, 0 if that is not known yet, and which
// records have only sessions that were shown until then.
type place struct {
	modified int64
	id       string
	floor    uint64
	shown    natsio.Gap
}

const placeForm = "%d %d %d %d %s"

func (p place) String() string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, placeForm, p.modified, p.floor, p.shown.After, p.shown.Last, p.id))
}

func parsePlace(text string) (p place, err error) {
	if text == "" {
		return p, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		_, err = fmt.Sscanf(string(b), placeForm, &p.modified, &p.floor, &p.shown.After, &p.shown.Last, &p.id)
	}
	if err != nil {
		return p, fmt.Errorf(`%w: after %.50q: want the "next" of the page before`, ErrPlace, text)
	}
	return p, nil
}

// before reports whether a row comes behind the place.
func (p place) before(r sessions.Row) bool {
	last := sessions.Row{Info: sessions.Info{ID: p.id}, Modified: p.modified}
	return p.id == "" || last.Compare(r) < 0
}
