package webhook_test

import (
	"net/netip"
	"testing"

	"spool/internal/webhook"
)

// TestPublic: an address that the whole internet has, and none that leads elsewhere, in whatever form.
func TestPublic(t *testing.T) {
	for address, want := range map[string]bool{
		"8.8.8.8": true, "2606:4700::1111": true, "::ffff:8.8.8.8": true, "2a00:1450:4001::200e": true,
		"127.0.0.1": false, "10.1.2.3": false, "169.254.169.254": false, "100.100.100.200": false, "0.0.0.0": false, "255.255.255.255": false,
		"::1": false, "::": false, "::ffff:127.0.0.1": false, "::127.0.0.1": false, "::ffff:0:10.0.0.1": false, "fe80::1%eth0": false,
		"fd00:ec2::254": false, "fec0::1": false, "64:ff9b::a00:1": false, "64:ff9b:1::a00:1": false, "2002:a00:1::": false,
		"2001:0:a00:1::": false, "ff02::1": false, "100::1": false,
	} {
		if got := webhook.Public(netip.MustParseAddr(address)); got != want {
			t.Errorf("Public(%s) = %v, want %v", address, got, want)
		}
	}
}
