package main

import (
	"fmt"
	"time"

	"spool/internal/history"
)

// moment is a time on the command line, in Unix milliseconds from 1 on: a time, a date, or how long ago. 0: none was given.
type moment int64

// UnmarshalText reads one, as of now.
func (m *moment) UnmarshalText(b []byte) error {
	at, err := history.Moment(string(b), time.Now())
	*m = moment(max(at, 1))
	return err
}

// date is a UTC date on the command line, as 2026-11-20; "": none was given.
type date string

// UnmarshalText reads a date that there is.
func (d *date) UnmarshalText(b []byte) error {
	if _, err := time.Parse(time.DateOnly, string(b)); err != nil {
		return fmt.Errorf("%.40q: use a date like 2026-11-20", b)
	}
	*d = date(b)
	return nil
}
