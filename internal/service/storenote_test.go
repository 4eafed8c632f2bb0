package service_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"spool/internal/embedded"
	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/persist"
	"spool/internal/service"
)

// up runs Spool on a data directory until it is up, and says why it was not.
func up(t *testing.T, dir string) error {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	return service.RunUp(ctx, service.UpConfig{
		Data: dir, Log: slog.New(slog.DiscardHandler), Limits: natsio.Limits{EventsBytes: 1 << 20, ItemsBytes: 1 << 20},
		Persist: service.PersisterConfig{Config: persist.Config{Lane: -1}}, Ready: func(*service.Up) { cancel() },
	})
}

// streams are the folders of the streams in a data directory.
func streams(t *testing.T, dir string) []string {
	t.Helper()
	return must.Get(filepath.Glob(filepath.Join(dir, "jetstream", "jetstream", "*", "streams", "*")))(t)
}

// TestNotWhatItWas: a data directory whose store is gone, or is another one, is refused before anything is written to it.
func TestNotWhatItWas(t *testing.T) {
	one, other := filepath.Join(t.TempDir(), "one"), filepath.Join(t.TempDir(), "other")
	for _, dir := range []string{one, one, other} {
		must.Do(t, up(t, dir))
	}
	files, kept := filepath.Join(one, "jetstream"), filepath.Join(t.TempDir(), "kept")
	must.Do(t, os.Rename(files, kept))
	must.Is(t, up(t, one), natsio.ErrGone, "up without what was stored")
	must.Same(t, len(streams(t, one)), 0, "%d streams were made, want %d")

	must.Do(t, os.RemoveAll(files))
	must.Do(t, os.CopyFS(files, os.DirFS(filepath.Join(other, "jetstream"))))
	must.Is(t, up(t, one), natsio.ErrTopology, "up on another store")
	must.Do(t, os.RemoveAll(files))
	must.Do(t, os.Rename(kept, files))
	must.Do(t, up(t, one))
}

// TestStoreOfACluster: what a server of a cluster stored is refused before the server that is alone starts.
func TestStoreOfACluster(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, up(t, dir))
	// A server whose others are away makes the files of its group when it starts.
	srv := must.Get(server.NewServer(&server.Options{
		ServerName: "one", Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true, JetStream: true, StoreDir: filepath.Join(dir, "jetstream"),
		Cluster: server.ClusterOpts{Name: "c", Host: "127.0.0.1", Port: -1},
		Routes:  server.RoutesFromStr("nats://127.0.0.1:1,nats://127.0.0.1:2"),
	}))(t)
	srv.Start()
	srv.Shutdown()
	srv.WaitForShutdown()
	before := streams(t, dir)
	if err := up(t, dir); !errors.Is(err, embedded.ErrStart) || !strings.Contains(err.Error(), "of a cluster") {
		t.Errorf("up = %v, want a refusal that says it is of a cluster", err)
	}
	must.Same(t, len(streams(t, dir)), len(before), "%d streams, want %d")
}
