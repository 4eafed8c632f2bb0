package events

import (
	"errors"
	"math"
	"time"

	"spool/internal/jsonscan"
)

// What an entry or an event says of its own time is a claim (SPEC P5): it is kept as it came and shown with the entry.
// Order and what a listing shows go by Believed; age goes by the store's clock alone.
const (
	earliest = 946_684_800_000     // 2000-01-01T00:00:00Z: no agent is older, and clocks that were never set are
	latest   = 253_402_300_799_999 // the last millisecond that RFC 3339 can say
	// ahead is how far in front of the store's a clock may be to count.
	ahead = int64(24 * time.Hour / time.Millisecond)
)

// zeroTime is what a time.Time says that nobody set: the year 1.
const zeroTime = -62_135_596_800_000

// Said is a claim, or 0 where it says none: 0 itself, and the zero of time.Time, which a program without a time sends.
func Said(claim int64) int64 {
	if claim == zeroTime {
		return 0
	}
	return claim
}

// Believed is what a claim counts for of what was stored at a time, both Unix milliseconds: itself where it is from 2000
// on and not behind the store's time, else the store's time. Nothing happens after it is stored; a transcript that is
// imported is as old as it says. stored 0: nobody knows; then a claim that cannot be is 0.
func Believed(claim, stored int64) int64 {
	if claim < earliest || claim > latest || stored != 0 && claim > stored {
		return stored
	}
	return claim
}

// NoLater is the time of something that a deadline ends: the store's, or a claim that is up to a day behind it. So clocks
// that differ end it early and never late. stored 0: nobody knows; then it is the claim.
func NoLater(claim, stored int64) int64 {
	if stored == 0 || claim > stored && claim <= stored+ahead {
		return claim
	}
	return stored
}

var errTime = errors.New("want Unix milliseconds as a number, or RFC 3339")

// ParseTime reads a claim in JSON, Unix milliseconds or RFC 3339. 0 for null.
func ParseTime(v []byte) (int64, error) {
	if jsonscan.KindOf(v) == jsonscan.KindNull {
		return 0, nil
	}
	if n, ok := jsonscan.Int(v); ok {
		return n, nil
	}
	s, _ := jsonscan.Text(v)
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return 0, errTime
	}
	return t.UnixMilli(), nil
}

// Stamp is a time as JSON has it, RFC 3339 in UTC with milliseconds; "" for 0, and for one that RFC 3339 cannot say.
func Stamp(ms int64) string { return string(AppendStamp(nil, ms)) }

// StampOf is Stamp of a time.Time; "" for the zero one.
func StampOf(t time.Time) string {
	return Stamp(MillisOf(t))
}

// MillisOf is a time as records and events have it, Unix milliseconds; 0 for the zero one. Types that are stored as they are, here and in
// casstore, threads, sessions and artifacts, have times so: what nobody said is 0 there, in their bytes and in every comparison. The types
// of the client have a time.Time.
func MillisOf(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// AppendStamp is Stamp behind b.
func AppendStamp(b []byte, ms int64) []byte {
	if ms == 0 || ms > latest || ms < -latest {
		return b
	}
	t := time.UnixMilli(ms).UTC()
	if t.Year() < 0 {
		return b
	}
	return t.AppendFormat(b, "2006-01-02T15:04:05.000Z")
}

// MaxLease is the longest lease that a run or an output is begun with, in milliseconds.
const MaxLease = 7 * 86_400_000

// MinLease is the shortest lease that an output may ask for, in milliseconds: none is looked for more often.
const MinLease = 1_000

// Millis is so many milliseconds, and the longest time that there is instead of a longer one: a product of a number that
// somebody said wraps around.
func Millis(n int64) time.Duration {
	const most = int64(math.MaxInt64 / time.Millisecond)
	return time.Duration(min(max(n, -most), most)) * time.Millisecond
}
