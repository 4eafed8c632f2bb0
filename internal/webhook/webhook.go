// Package webhook is the client of addresses that others name: it reaches none of this machine or network, unless that is allowed.
package webhook

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"
)

// Wait is how long an address may take to answer.
const Wait = 10 * time.Second

// Client is one that follows no redirect. An address that is no public one is refused when it is dialled, unless private says
// otherwise: a name that leads there could be anybody's.
func Client(private bool, flag string) *http.Client {
	dialer := &net.Dialer{Timeout: Wait}
	if !private {
		dialer.Control = func(_, address string, _ syscall.RawConn) error { return public(address, flag) }
	}
	return &http.Client{
		Timeout:       Wait,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext: dialer.DialContext, TLSHandshakeTimeout: Wait, MaxResponseHeaderBytes: 1 << 16, IdleConnTimeout: time.Minute,
		},
	}
}

// global is where all addresses of IPv6 are that the whole internet has.
var global = netip.MustParsePrefix("2000::/3")

// shared is what no other machine on the internet has: between a provider's customers, for tests, and the like; and what leads to an
// address of IPv4, which may be any (6to4, Teredo).
var shared = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("2001::/23"), netip.MustParsePrefix("2001:db8::/32"), netip.MustParsePrefix("2002::/16"),
}

// Public reports whether an address is one that the whole internet has.
func Public(ip netip.Addr) bool {
	ip = ip.Unmap().WithZone("")
	bad := !ip.IsGlobalUnicast() || ip.IsPrivate() || ip.Is6() && !global.Contains(ip)
	for _, p := range shared {
		bad = bad || p.Contains(ip)
	}
	return !bad
}

// IsPrivate tells whether a host is plainly of this machine or network: what another name leads to is looked at when it is dialled.
func IsPrivate(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && !Public(ip)
}

// public refuses an address, "HOST:PORT" as it is dialled, that only this machine or network has.
func public(address, flag string) error {
	at, err := netip.ParseAddrPort(address)
	if err == nil && !Public(at.Addr()) {
		err = fmt.Errorf("%s is no public address: %s allows it", at.Addr().Unmap().WithZone(""), flag)
	}
	return err
}
