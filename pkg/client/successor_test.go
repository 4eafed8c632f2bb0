package client_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"

	"spool/internal/must"
	"spool/pkg/client"
)

// laptop publishes as a producer that outlives its processes, each entry at its place in the source.
func laptop(t *testing.T, c *client.Client, epoch uint64, from, to int) {
	t.Helper()
	p := c.Publisher(client.PublisherConfig{Producer: "laptop", Epoch: epoch})
	for i, e := range posts(thread("s"), from, to) {
		e.Seq = uint64(from + i)
		must.Get(p.Publish(limited(t), e))(t)
	}
}

// wantItems holds the thread against the texts 1 to n.
func wantItems(t *testing.T, c *client.Client, n int) {
	t.Helper()
	all := texts(t, c.Subscribe(limited(t), client.Filter{Session: "s", Thread: "main"}, client.Position{N: 1}), n)
	if !slices.Equal(all, numbers(1, n)) {
		t.Errorf("items %v, want 1 to %d", all, n)
	}
}

// What a process kept offline comes before what its successor of the same producer publishes, however soon that is.
func TestOfflineSuccessor(t *testing.T) {
	for _, epochs := range [][2]uint64{{0, 0}, {1, 2}} {
		s, dir := newSite(t), t.TempDir()
		first := connectOffline(t, s, dir, 0)
		laptop(t, first, epochs[0], 1, 7)
		first.Close()
		s.up()
		next := connectOffline(t, s, dir, 0)
		laptop(t, next, epochs[1], 8, 8)
		s.down() // in the middle, or not
		laptop(t, next, epochs[1], 9, 10)
		s.up()
		laptop(t, next, epochs[1], 11, 12)
		must.Do(t, next.Flush(limited(t)))
		wantItems(t, next, 12)
		next.Close()
		s.down()
	}
}

// Several publishers of one program write one entry each while no server is there.
func TestOfflinePublishers(t *testing.T) {
	s := newSite(t)
	c := connectOffline(t, s, t.TempDir(), 0)
	defer c.Close()
	for i := range 6 {
		must.Get(c.Publisher(client.PublisherConfig{}).Publish(limited(t), posts(thread("s"), i+1, i+1)...))(t)
	}
	s.up()
	must.Do(t, c.Flush(limited(t)))
	wantItems(t, c, 6)
}

// The same with processes: one is killed, and others on the directory may drain what it left beside its successor.
func TestOfflineSuccessorOfAProcess(t *testing.T) {
	if dir := os.Getenv("SPOOL_LAPTOP_DIR"); dir != "" {
		c := must.Get(client.Connect(context.Background(), client.Config{URL: os.Getenv("SPOOL_LAPTOP_URL"), Offline: dir}))(t)
		laptop(t, c, 0, 1, 40)
		fmt.Println("kept")
		select {}
	}
	s, dir := newSite(t), t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestOfflineSuccessorOfAProcess$")
	cmd.Env = append(os.Environ(), "SPOOL_LAPTOP_DIR="+dir, "SPOOL_LAPTOP_URL="+s.url())
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	must.Do(t, err)
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "kept\n" {
		t.Fatalf("the process says %q, %v", line, err)
	}
	must.Do(t, cmd.Process.Kill())
	_ = cmd.Wait()
	s.up()
	c := connectOffline(t, s, dir, 0)
	laptop(t, c, 0, 41, 41)
	var beside []*client.Client
	for range 3 {
		beside = append(beside, connectOffline(t, s, dir, 0))
	}
	laptop(t, c, 0, 42, 50)
	must.Do(t, c.Flush(limited(t)))
	wantItems(t, c, 50)
	for _, one := range append(beside, c) {
		one.Close()
	}
}
