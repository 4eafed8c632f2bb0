package offline

import (
	"sync"
	"testing"

	"spool/internal/must"
)

// A queue is opened while others on its directory take each new one for a dead process's, and remove it.
func TestOpenBesideWhoRemovesQueues(t *testing.T) {
	dir, stop := t.TempDir(), make(chan struct{})
	var beside sync.WaitGroup
	for range 4 {
		beside.Go(func() {
			other := &Queue{cfg: Config{Dir: dir}}
			for {
				select {
				case <-stop:
					return
				default:
				}
				dirs, _ := other.others()
				for _, d := range dirs {
					if b, err := takeDead(d); err == nil && b != nil {
						_ = removeQueue(d)
						b.release()
					}
				}
			}
		})
	}
	for range 2000 {
		q := must.Get(Open(Config{Dir: dir}))(t)
		if _, held, err := tryLock(q.lock.Name()); held || err != nil {
			t.Fatalf("the lock of an open queue is free, or it is gone: %v", err)
		}
		must.Do(t, q.Close())
	}
	close(stop)
	beside.Wait()
}
