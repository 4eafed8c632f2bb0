package proc

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// Ports are outside of the range from which outgoing connections take theirs (32768 and up on Linux), so that one stays free while the
// process that listens on it is down.
const (
	firstPort = 20_000
	ports     = 10_000
)

// Port is a TCP port of loopback that nothing listens on and that no other test gets, of this binary or of another one, while this test
// runs: the test holds the UDP port of the same number, which nothing else here uses.
func Port(t testing.TB) int {
	t.Helper()
	for range 1000 {
		addr := fmt.Sprintf("127.0.0.1:%d", firstPort+rand.IntN(ports))
		held, err := net.ListenPacket("udp", addr)
		if err != nil {
			continue // another test has it
		}
		l, err := net.Listen("tcp", addr)
		if err != nil {
			_ = held.Close()
			continue
		}
		_ = l.Close()
		t.Cleanup(func() { _ = held.Close() })
		return l.Addr().(*net.TCPAddr).Port
	}
	t.Fatal("no free port")
	return 0
}

// Address is a Port with its host.
func Address(t testing.TB) string {
	t.Helper()
	return fmt.Sprintf("127.0.0.1:%d", Port(t))
}
