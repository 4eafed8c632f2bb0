// Package text writes figures for people.
package text

import (
	"fmt"
	"time"
)

// Bytes is a size in binary units, to three digits: "512 B", "1.5 KiB", "20.3 MiB".
func Bytes(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	v, unit := float64(n), 0
	for v >= 1024 && unit < 5 {
		v, unit = v/1024, unit+1
	}
	return fmt.Sprintf("%.1f %ciB", v, " KMGTP"[unit])
}

// Ago is how long before now a time in Unix milliseconds was: "now", "5m", "3h", "2d", or a date. "" for none.
func Ago(ms int64, now time.Time) string {
	if ms == 0 {
		return ""
	}
	t := time.UnixMilli(ms)
	switch d := now.Sub(t); {
	case d < 0:
		return t.Format("2006-01-02")
	case d < time.Minute:
		return "now"
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	case d < 60*24*time.Hour:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	}
	return t.Format("2006-01-02")
}
