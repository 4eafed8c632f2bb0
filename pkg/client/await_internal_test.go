package client

import (
	"testing"
	"testing/synctest"
	"time"
)

// Who waits looks a quarter of a second after the last look at first, and later a twentieth of its waiting.
func TestLaterLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, looks, wait := time.Now(), 0, 2*time.Millisecond
		for ; time.Since(begun) < 5*time.Minute; wait = later(wait, begun) {
			if most := max(often, time.Since(begun)/20); wait > most {
				t.Fatalf("%v after %v, want at most %v", wait, time.Since(begun), most)
			}
			time.Sleep(wait)
			looks++
		}
		if looks > 150 { // each quarter of a second would be 1,200
			t.Errorf("%d looks in five minutes", looks)
		}
	})
}
