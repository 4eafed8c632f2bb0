package gc

import (
	"context"
	"encoding/json"
	"slices"
	"spool/internal/must"
	"testing"
	"time"
)

// memory is a Memory that keeps what it is given.
type memory struct {
	*fake
	state []byte
}

func (m *memory) Remember(_ context.Context, state any) (err error) {
	m.state, err = json.Marshal(state)
	return err
}

func (m *memory) Recall(_ context.Context, state any) error {
	if m.state == nil {
		return nil
	}
	return json.Unmarshal(m.state, state)
}

// Bytes that no record names are reclaimed when cycles have seen them so for ReclaimAge, however old they are; a cycle
// that is not applied loses nothing of that.
func TestReclaimAge(t *testing.T) {
	f := newFake(t)
	f.upload([]byte("nobody names this"))
	c := f.collector(Config{ReclaimAge: time.Hour})
	c.Memory = &memory{fake: f}
	for _, at := range []struct {
		age  time.Duration
		want int
	}{{5 * time.Hour, 0}, {5*time.Hour + 30*time.Minute, 0}, {6 * time.Hour, 1}, {7 * time.Hour, 1}} {
		f.age = at.age
		p := must.Get(c.Plan(t.Context()))(t)
		if len(p.Reclaim) != at.want || p.Kept.Unnamed != 1-at.want {
			t.Errorf("at the age %v: %d reclaimed, %d wait, want %d reclaimed", at.age, len(p.Reclaim), p.Kept.Unnamed, at.want)
		}
	}
}

// Where records were lost and made again, no amount is small enough to go without a person's word; and where there is no
// thread, bytes of packs do not go because their records are not there either.
func TestNoFloorAfterALoss(t *testing.T) {
	f := newFake(t)
	f.upload([]byte("nobody names this"))
	for _, c := range []struct {
		unsure bool
		allow  []Brake
		want   []Brake
	}{
		{false, nil, []Brake{BrakeRoots}},
		{false, []Brake{BrakeRoots}, nil},
		{true, []Brake{BrakeRoots}, []Brake{BrakeReclaim}},
		{true, []Brake{BrakeRoots, BrakeReclaim}, nil},
	} {
		col := f.collector(Config{Allow: c.allow})
		col.Alarms = func(context.Context) (Alarms, error) { return Alarms{Unsure: c.unsure}, nil }
		p := must.Get(col.Plan(t.Context()))(t)
		var got []Brake
		for _, b := range p.Brakes {
			got = append(got, b.Brake)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("unsure %v, allowed %v: brakes %v, want %v", c.unsure, c.allow, got, c.want)
		}
	}
}
