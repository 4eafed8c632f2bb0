package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"spool/e2e/internal/proc"
	"spool/internal/natsio"
	"spool/pkg/client"
)

// product is one `spool up` that all scenarios of a run share, each in sessions of its own.
type product struct {
	*client.Client
	conn      *natsio.Conn
	dir, data string // what it removes when it ends, what it stores
	bin       string
	nats, api string
	up        *exec.Cmd
	scenarios int
}

// running is the product of this run: started by the first scenario that needs it.
var running = sync.OnceValues(func() (*product, error) {
	p, err := startProduct("", "")
	if err == nil {
		stopProduct = p.stop
	}
	return p, err
})

// stopProduct ends the product of this run, if it was started.
var stopProduct = func() error { return nil }

var addresses = regexp.MustCompile(`NATS +(\S+)\n +HTTP +(\S+)\n`)

const productPatience = 90 * time.Second

// startProduct starts the command, on a store of its own unless data names one. It builds it where no program is named.
func startProduct(bin, data string) (_ *product, err error) {
	p := &product{bin: bin, data: data}
	if p.dir, err = os.MkdirTemp("", "spool-vectors-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.stop())
		}
	}()
	if p.bin == "" {
		if err := proc.Build(p.dir, "spool/cmd/spool"); err != nil {
			return nil, err
		}
		p.bin = filepath.Join(p.dir, "spool")
	}
	p.data = cmp.Or(p.data, filepath.Join(p.dir, "data"))
	p.up = exec.Command(p.bin, "up", "--data", p.data, "--listen", "127.0.0.1:0",
		"--http", "127.0.0.1:0", "--sync", "1s", "--gc-every", "0")
	p.up.Env = append(ownEnv(), "HOME="+p.dir)
	proc.EndWithParent(p.up)
	out, err := p.up.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := p.up.Start(); err != nil {
		return nil, err
	}
	late := time.AfterFunc(productPatience, func() { _ = p.up.Process.Kill() })
	var hello []byte
	for part := make([]byte, 4<<10); p.nats == ""; {
		n, err := out.Read(part)
		if err != nil {
			return nil, fmt.Errorf("spool up: %w: %s", err, hello)
		}
		hello = append(hello, part[:n]...)
		if m := addresses.FindSubmatch(hello); m != nil {
			p.nats, p.api = string(m[1]), string(m[2])
		}
	}
	late.Stop()
	go func() { _, _ = io.Copy(io.Discard, out) }()
	ctx, cancel := context.WithTimeout(context.Background(), productPatience)
	defer cancel()
	if p.conn, err = natsio.Dial(ctx, natsio.Config{URL: p.nats}); err == nil {
		p.Client = client.New(p.conn)
	}
	return p, err
}

// ownEnv is the environment without what configures Spool in it, which is not that of a run.
func ownEnv() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "NATS_") || strings.HasPrefix(v, "SPOOL_") || strings.HasPrefix(v, "XDG_")
	})
}

// stop ends the process and removes what it stored.
func (p *product) stop() error {
	if p.Client != nil {
		p.Client.Close()
		p.conn.Close()
	}
	if p.up != nil && p.up.Process != nil {
		_ = p.up.Process.Signal(syscall.SIGTERM)
		_ = p.up.Wait()
	}
	return os.RemoveAll(p.dir)
}

// run runs a command of the product on the server.
func (p *product) run(ctx context.Context, args ...string) (stdout []byte, err error) {
	var told bytes.Buffer
	cmd := exec.CommandContext(ctx, p.bin, args...)
	cmd.Env = append(ownEnv(), "NATS_URL="+p.nats, "HOME="+p.dir)
	cmd.Stderr = &told
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("spool %q: %w: %s", args, err, bytes.TrimSpace(told.Bytes()))
	}
	return out, err
}

// get reads a path of the HTTP API.
func (p *product) get(ctx context.Context, path string, query url.Values) ([]byte, error) {
	b, _, err := p.fetch(ctx, path, query)
	return b, err
}

// fetch is get with the header of the answer; nil: there was no answer.
func (p *product) fetch(ctx context.Context, path string, query url.Values) ([]byte, http.Header, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.api+path+"?"+query.Encode(), nil)
	if err != nil {
		return nil, nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode >= 300 {
		err = fmt.Errorf("GET %s: %s: %s", path, res.Status, bytes.TrimSpace(b))
	}
	return b, res.Header, err
}
