package client

import (
	"fmt"
	"slices"
	"testing"

	"spool/internal/natsio"
	"spool/pkg/events"
)

// TestItemsOfSeveralLives: of each life of a name a reader gets each item once, also when items of lives before are stored again.
func TestItemsOfSeveralLives(t *testing.T) {
	type one struct {
		life uint64
		n    int64
	}
	stored := []one{{0, 1}, {7, 1}, {0, 1}, {7, 1}, {9, 1}, {7, 1}, {9, 1}, {9, 2}, {0, 2}}
	for name, c := range map[string]struct {
		from Position
		want []one
	}{
		"all":    {Position{All: true}, []one{{0, 1}, {7, 1}, {9, 1}, {9, 2}, {0, 2}}},
		"number": {Position{N: 1}, []one{{7, 1}, {9, 1}, {9, 2}}},
	} {
		var got []one
		s := &subscription{ctx: t.Context(), from: c.from, last: newPlaces(mostPlaces), yield: func(i Item, err error) bool {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			got = append(got, one{i.Life, i.N})
			return true
		}}
		if c.from.N != 0 {
			s.begin(life{events.Thread{Session: "s", Name: "main"}, 7}, c.from.N-1) // what start finds
		}
		for _, i := range stored {
			s.take(natsio.StoredItem{Life: i.life, Data: fmt.Appendf(nil, `{"n":%d,"session":"s","thread":"main"}`, i.n)})
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}
