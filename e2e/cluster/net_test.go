package cluster_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// network is where the servers live. With namespaces each has one of its own with two links: one to the other servers and one to
// the clients, so that it can be cut off from either. Without, they share loopback and nothing can be cut.
//
//	n0 ──client0──┐                  ┌──route0── n0
//	n1 ──client1──┤ bridge "clients" │ bridge "routes" ...
//	n2 ──client2──┘ 10.77.2.1        └──route2── n2
type network struct{ namespaces bool }

const (
	routes  = "route"  // 10.77.1.1n: from server to server
	clients = "client" // 10.77.2.1n: to the server's clients, which live where the test does
)

var subnets = map[string]string{routes: "10.77.1.", clients: "10.77.2."}

// makeNetwork lays it out. It is called in a network and mount namespace of the test's own, so that all of it goes with the process.
func makeNetwork() (*network, error) {
	// /run is this process's: "ip netns" keeps its files there.
	steps := []string{
		"mount --make-rprivate /", "mount -t tmpfs none /run",
		"ip link set lo up",
		"ip link add routes type bridge", "ip link set routes up",
		"ip link add clients type bridge", "ip addr add 10.77.2.1/24 dev clients", "ip link set clients up",
	}
	for i := range servers {
		steps = append(steps, fmt.Sprintf("ip netns add n%d", i), fmt.Sprintf("ip -n n%d link set lo up", i))
		for link, subnet := range subnets {
			steps = append(steps,
				fmt.Sprintf("ip link add %s%d type veth peer name %s netns n%d", link, i, link, i),
				fmt.Sprintf("ip link set %s%d master %ss up", link, i, link),
				fmt.Sprintf("ip -n n%d addr add %s1%d/24 dev %s", i, subnet, i, link),
				fmt.Sprintf("ip -n n%d link set %s up", i, link))
		}
	}
	return &network{namespaces: true}, sh(steps...)
}

// sh runs commands without a shell, up to the first that fails.
func sh(commands ...string) error {
	for _, c := range commands {
		args := strings.Fields(c)
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", c, err, out)
		}
	}
	return nil
}

// address is a server's on a link, without the port.
func (n *network) address(link string, server int) string {
	if !n.namespaces {
		return "127.0.0.1"
	}
	return fmt.Sprintf("%s1%d", subnets[link], server)
}

// inside is the command, run where a server lives.
func (n *network) inside(server int, args ...string) *exec.Cmd {
	if n.namespaces {
		args = append([]string{"ip", "netns", "exec", fmt.Sprintf("n%d", server)}, args...) // which becomes the command, under its pid
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=2")
	return cmd
}

// cut takes links of a server down: packets vanish, connections hang.
func (n *network) cut(server int, links ...string) error {
	var errs []error
	for _, link := range links {
		errs = append(errs, sh(fmt.Sprintf("ip link set %s%d down", link, server)))
	}
	return errors.Join(errs...)
}

// mend puts them up again.
func (n *network) mend(server int, links ...string) error {
	var errs []error
	for _, link := range links {
		errs = append(errs, sh(fmt.Sprintf("ip link set %s%d up", link, server)))
	}
	return errors.Join(errs...)
}

// part makes two servers lose all packets to each other; both still reach the third.
func (n *network) part(a, b int) error {
	return sh(fmt.Sprintf("ip -n n%d route add blackhole %s", a, n.address(routes, b)),
		fmt.Sprintf("ip -n n%d route add blackhole %s", b, n.address(routes, a)))
}

// join undoes it.
func (n *network) join(a, b int) error {
	return sh(fmt.Sprintf("ip -n n%d route del blackhole %s", a, n.address(routes, b)),
		fmt.Sprintf("ip -n n%d route del blackhole %s", b, n.address(routes, a)))
}
