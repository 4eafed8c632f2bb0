package artifacts

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"spool/internal/family"
	"spool/pkg/truncate"
)

// Dir is where the artifacts of one root session lie, as a flat folder: outputs of tools are <seq>.<tool>.log, outputs of
// agents <id>.md. NewFolder makes one of records.
type Dir interface {
	// Names lists the files in any order. An error that is fs.ErrNotExist says that there is no such folder.
	Names(ctx context.Context) ([]string, error)
	// Open opens a file that Names listed, and says how many bytes it has.
	Open(ctx context.Context, name string) (io.ReadCloser, int64, error)
}

// Blobs opens blobs by their ref, blob:sha256:<hex>. An error that is fs.ErrNotExist says that there is no such blob.
type Blobs interface {
	OpenBlob(ctx context.Context, ref string) (io.ReadCloser, int64, error)
}

// Sources is what addresses lead to.
type Sources struct {
	Unreadable error // names artifacts that are not in Dir because their records cannot be read
	Dir        Dir   // of the session; nil: there is no session
	Blobs      Blobs // nil: there are none
}

// Resource is what an address leads to. The caller closes Body.
type Resource struct {
	Body        io.ReadCloser
	ContentType string
	Size        int64    // bytes of Body; -1 for a selection of lines
	Name        string   // of the file; of a blob its ref
	Notes       []string // about how Body was made of the file
}

var (
	// ErrNowhere: there is nowhere to look, so that no address of this kind can be resolved.
	ErrNowhere = family.NotFound.New("unavailable")
	// ErrCorrupt: the bytes of a blob do not have its hash (SPEC T10).
	ErrCorrupt = family.Damaged.New("blob is corrupt")
)

// MaxExtract is the largest agent output, in bytes, that a value is extracted from: it has to be in memory for that.
const MaxExtract = 64 << 20

// Resolve finds what an address leads to, and selects lines of it. Texts of errors are SPEC's word for word (A8, A9); they
// wrap ErrURL (the address itself is wrong), ErrNowhere, ErrNotFound, ErrPastEnd or ErrCorrupt. A blob's ErrCorrupt
// comes from Body, when all of it has been read.
func (s Sources) Resolve(ctx context.Context, address string, lines Lines) (Resource, error) {
	r, err := s.resolve(ctx, address, lines)
	if s.Unreadable != nil && errors.Is(err, ErrNotFound) {
		err = fmt.Errorf("%w; it may be one that cannot be read: %w", err, s.Unreadable)
	}
	return r, err
}

func (s Sources) resolve(ctx context.Context, address string, lines Lines) (Resource, error) {
	u, err := parseURL(address)
	if err == nil {
		err = lines.check()
	}
	if err != nil {
		return Resource{}, err
	}
	switch u.Scheme {
	case schemeArtifact:
		return s.artifact(ctx, u, lines)
	case schemeAgent:
		return s.agent(ctx, u, lines)
	}
	return s.blob(ctx, address, lines)
}

// artifact resolves artifact://<seq>; path and query mean nothing (SPEC A8).
func (s Sources) artifact(ctx context.Context, u URL, lines Lines) (Resource, error) {
	digits, rest := leadingDigits(u.Host)
	switch {
	case u.Host == "":
		return Resource{}, refuse(ErrURL, "artifact:// URL requires a numeric ID: artifact://0")
	case digits == "" || rest != "":
		return Resource{}, refuse(ErrURL, "artifact:// ID must be numeric, got: %s", u.Host)
	}
	found, err := s.list(ctx, "No session - artifacts unavailable")
	if err != nil {
		return Resource{}, err
	}
	if name, ok := found.numbered(digits); ok {
		return found.open(ctx, name, "text/plain", lines)
	}
	numbers := found.available(func(name string) (string, bool) {
		digits, rest := leadingDigits(name)
		return digits, digits != "" && strings.HasPrefix(rest, ".")
	}, byNumber)
	return Resource{}, refuse(ErrNotFound, "Artifact %s not found. Available: %s", digits, numbers)
}

// agent resolves agent://<id>, a nested output agent://<parent>/<child>, or a value in an output that is JSON (SPEC A9).
func (s Sources) agent(ctx context.Context, u URL, lines Lines) (Resource, error) {
	query := u.param("q")
	hasPath := u.Path != "" && u.Path != "/"
	switch {
	case u.Host == "":
		return Resource{}, refuse(ErrURL, "agent:// URL requires an output ID: agent://<id>")
	case hasPath && query != "":
		return Resource{}, refuse(ErrURL, "agent:// URL cannot combine path extraction with ?q=")
	}
	found, err := s.list(ctx, "No session - agent outputs unavailable")
	if err != nil {
		return Resource{}, err
	}
	segments := u.segments()
	if len(segments) > 0 {
		nested := AgentFile(u.Host + "." + strings.Join(segments, "."))
		if slices.Contains(found.names, nested) {
			return found.open(ctx, nested, "text/markdown", lines)
		}
		query = pathQuery(segments)
	}
	name := AgentFile(u.Host)
	switch {
	case !slices.Contains(found.names, name):
		ids := found.available(func(name string) (string, bool) { return strings.CutSuffix(name, agentExt) }, strings.Compare)
		return Resource{}, refuse(ErrNotFound, "Not found: %s\nAvailable: %s", u.Host, ids)
	case !hasPath && query == "":
		return found.open(ctx, name, "text/markdown", lines)
	case !lines.all():
		return Resource{}, refuse(ErrURL, "Cannot combine query extraction with offset/limit")
	}
	return found.extract(ctx, u.Host, query)
}

// blob resolves blob:sha256:<hex>.
func (s Sources) blob(ctx context.Context, ref string, lines Lines) (Resource, error) {
	if !truncate.IsRef(ref) {
		return Resource{}, refuse(ErrURL, "%q is no blob ref: use blob:sha256: and 64 of 0-9 a-f", ref)
	}
	if s.Blobs == nil {
		return Resource{}, refuse(ErrNowhere, "No blob store - %s unavailable", ref)
	}
	body, size, err := s.Blobs.OpenBlob(ctx, ref)
	if errors.Is(err, fs.ErrNotExist) {
		return Resource{}, refuse(ErrNotFound, "Not found: %s", ref)
	}
	if err != nil {
		return Resource{}, fmt.Errorf("open %s: %w", ref, err)
	}
	checked := &checkedReader{body, sha256.New(), ref}
	return selection(checked, body, Resource{ContentType: "application/octet-stream", Size: size, Name: ref}, lines)
}

// folder is one folder and what is in it, sorted.
type folder struct {
	dir   Dir
	names []string // sorted
}

// list reads what the folder holds.
func (s Sources) list(ctx context.Context, none string) (folder, error) {
	if s.Dir == nil {
		return folder{}, refuse(ErrNowhere, "%s", none)
	}
	names, err := s.Dir.Names(ctx)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return folder{}, refuse(ErrNowhere, "No artifacts directory found")
	case err != nil:
		return folder{}, fmt.Errorf("list artifacts: %w", err)
	}
	return folder{s.Dir, slices.Sorted(slices.Values(names))}, nil
}

// numbered is the file <digits>.…: a tool's output if there is one, else any.
func (f folder) numbered(digits string) (name string, ok bool) {
	for _, n := range f.names {
		if strings.HasPrefix(n, digits+".") && (!ok || strings.HasSuffix(n, toolExt) && !strings.HasSuffix(name, toolExt)) {
			name, ok = n, true
		}
	}
	return name, ok
}

// available lists the ids of all files, each once.
func (f folder) available(id func(name string) (string, bool), compare func(a, b string) int) string {
	ids := map[string]bool{}
	for _, name := range f.names {
		if s, ok := id(name); ok {
			ids[s] = true
		}
	}
	if len(ids) == 0 {
		return "none"
	}
	return strings.Join(slices.SortedFunc(maps.Keys(ids), compare), ", ")
}

// byNumber orders digits by value.
func byNumber(a, b string) int {
	m, _ := leadingSeq(a)
	n, _ := leadingSeq(b)
	return cmp.Or(m.Compare(n), strings.Compare(a, b))
}

func (f folder) open(ctx context.Context, name, contentType string, lines Lines) (Resource, error) {
	body, size, err := f.dir.Open(ctx, name)
	if err != nil {
		return Resource{}, fmt.Errorf("open artifact %s: %w", name, err)
	}
	return selection(body, body, Resource{ContentType: contentType, Size: size, Name: name}, lines)
}

// selection completes a resource with the selected lines of r, and closes c when there are none.
func selection(r io.Reader, c io.Closer, res Resource, lines Lines) (Resource, error) {
	if !lines.all() {
		selected, err := lines.selected(r)
		if err != nil {
			return Resource{}, errors.Join(fmt.Errorf("%s: %w", res.Name, err), c.Close())
		}
		r, res.Size = selected, -1
	}
	res.Body = body{r, c}
	return res, nil
}

type body struct {
	io.Reader
	io.Closer
}

// extract resolves a query in an agent's output.
func (f folder) extract(ctx context.Context, id, query string) (Resource, error) {
	res, err := f.open(ctx, AgentFile(id), "application/json", Lines{})
	if err != nil {
		return Resource{}, err
	}
	raw, err := io.ReadAll(io.LimitReader(res.Body, MaxExtract+1))
	if err = errors.Join(err, res.Body.Close()); err != nil {
		return Resource{}, fmt.Errorf("read output %s: %w", id, err)
	}
	if len(raw) > MaxExtract {
		return Resource{}, refuse(ErrURL, "Output %s is larger than %d bytes: read it by lines, without extraction", id, MaxExtract)
	}
	raw = bytes.TrimPrefix(raw, []byte("\xef\xbb\xbf"))
	if err := checkJSON(raw); err != nil {
		return Resource{}, refuse(ErrURL, "Output %s is not valid JSON: %v", id, err)
	}
	steps, err := parseQuery(query)
	if err != nil {
		return Resource{}, err
	}
	if query != "" {
		res.Notes = []string{"Extracted: " + query}
	}
	value := pretty(extract(raw, steps))
	res.Size = int64(len(value))
	res.Body = io.NopCloser(bytes.NewReader(value))
	return res, nil
}

// checkedReader turns the end of a blob into ErrCorrupt when the bytes did not have its hash.
type checkedReader struct {
	r   io.Reader
	sum hash.Hash
	ref string
}

func (c *checkedReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.sum.Write(p[:n])
	if errors.Is(err, io.EOF) && !strings.HasSuffix(c.ref, hex.EncodeToString(c.sum.Sum(nil))) {
		return n, fmt.Errorf("%w: %s", ErrCorrupt, c.ref)
	}
	return n, err
}
