package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"spool/internal/jsonscan"
	"spool/pkg/artifacts"
	"spool/pkg/sessions"
)

// folder is a session of the product, with the artifacts that an import found beside its file.
type folder struct {
	*product
	ctx     context.Context
	session string
}

// imported has `spool import` take in a session beside whose file these lie, of no session if they are nil.
func imported(ctx context.Context, files map[string]string) (f folder, err error) {
	p, err := running()
	if err != nil || files == nil {
		return folder{product: p, ctx: ctx}, err
	}
	p.scenarios++
	f = folder{p, ctx, fmt.Sprintf("folder-%d", p.scenarios)}
	dir, err := os.MkdirTemp(p.dir, "folder-")
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	h := sessions.Header{ID: f.session, Version: sessions.Version, Timestamp: sessions.FormatTime(firstTime), Cwd: "/w"}
	file := filepath.Join(dir, "sessions", "--w--", h.FileName())
	beside := strings.TrimSuffix(file, ".jsonl")
	err = errors.Join(os.MkdirAll(beside, 0o755), os.WriteFile(file, append(h.JSON(), '\n'), 0o644))
	for name, text := range files {
		if id, thread := strings.CutSuffix(name, ".jsonl"); thread { // of a subagent
			h.ID = f.session + "-" + id
			text = string(h.JSON()) + "\n"
		}
		err = errors.Join(err, os.WriteFile(filepath.Join(beside, name), []byte(text), 0o644))
	}
	if err == nil {
		_, err = p.run(ctx, "import", dir)
	}
	return f, err
}

// names are the files that `spool session export` writes beside that of the session, sorted.
func (f folder) names() (names []any, err error) {
	dir, err := os.MkdirTemp(f.dir, "folder-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if _, err := f.run(f.ctx, "session", "export", f.session, "--dir", dir); err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(dir, "sessions", "*", "*", "*"))
	for i := range files {
		files[i] = filepath.Base(files[i])
	}
	return anys(files), err
}

// read asks what an address leads to, as the oracle logs it: the text over HTTP, and of what file it is by the client.
func (f folder) read(address string) (map[string]any, error) {
	query := url.Values{"url": {address}}
	if f.session != "" {
		query.Set("session", f.session)
	}
	text, header, err := f.fetch(f.ctx, "/v1/read", query)
	if header == nil && err != nil {
		return nil, err
	}
	res, rerr := f.Session(f.session).Resolve(f.ctx, address, artifacts.Lines{})
	if (err == nil) != (rerr == nil) {
		return nil, fmt.Errorf("%s over HTTP: %v; by the client: %v", address, err, rerr)
	}
	if rerr != nil {
		said, _ := jsonscan.Text(jsonscan.Get(text, "error"))
		if said != rerr.Error() {
			return nil, fmt.Errorf("%s over HTTP: %s; by the client: %v", address, text, rerr)
		}
		return map[string]any{"error": said}, nil
	}
	defer res.Body.Close()
	own, err := io.ReadAll(res.Body)
	if string(own) != string(text) {
		err = errors.Join(err, fmt.Errorf("%s over HTTP: %q; by the client: %q", address, text, own))
	}
	got := map[string]any{
		"content": string(text), "size": json.Number(header.Get("Content-Length")), "sourceFile": res.Name,
		"contentType": strings.TrimSuffix(header.Get("Content-Type"), "; charset=utf-8"),
	}
	if strings.HasPrefix(address, "agent:") {
		got["notes"] = anys(res.Notes)
	}
	return got, err
}

// memberAs is a member of a decoded object, or an error that says what is missing.
func memberAs[T any](v any, key string) (T, error) {
	m, _ := v.(map[string]any)
	t, ok := m[key].(T)
	if !ok {
		return t, fmt.Errorf("member %q is %T, want %T", key, m[key], t)
	}
	return t, nil
}
