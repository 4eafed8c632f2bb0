package bench

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// tick is the unit of /proc/stat: a hundredth of a second on every machine that Linux runs on.
const tick = 10 * time.Millisecond

// machineTime is the processor time that all programs of the machine have used, and what its host took; 0: unknown.
func machineTime() time.Duration {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	var user, nice, system, idle, wait, irq, softirq, steal int64
	line, _, _ := strings.Cut(string(b), "\n")
	if _, err := fmt.Sscanf(line, "cpu %d %d %d %d %d %d %d %d", &user, &nice, &system, &idle, &wait, &irq, &softirq, &steal); err != nil {
		return 0
	}
	return time.Duration(user+nice+system+irq+softirq+steal) * tick
}

// loadAverage is how many programs wanted a core in the last minute; 0: unknown.
func loadAverage() (load float64) {
	if b, err := os.ReadFile("/proc/loadavg"); err == nil {
		_, _ = fmt.Sscan(string(b), &load)
	}
	return load
}
