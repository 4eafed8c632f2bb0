package backup

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"spool/internal/jsonscan"
)

// Repository is a directory of snapshots.
type Repository struct{ dir string }

// format is the version of the directory's layout.
const format = 1

// Manifest is what a snapshot holds.
type Manifest struct {
	Format  int       `json:"format"`
	ID      string    `json:"id"`
	Time    time.Time `json:"time"`
	Records int       `json:"records"` // lines; a record that was written while they were read is there twice
	Objects int       `json:"objects"`
	Bytes   int64     `json:"bytes"` // of all objects
	Events  int       `json:"events"`
	Dead    int       `json:"dead"`
	// First is where streams go on that a restore makes: above every sequence that something here names.
	First map[string]uint64 `json:"first"`
	Files map[string]string `json:"files"` // SHA-256 of the other files

	NewObjects int   `json:"new_objects"` // that no snapshot before had
	NewBytes   int64 `json:"new_bytes"`
}

// The files of a snapshot.
const (
	manifestFile = "manifest.json"
	recordsFile  = "records.ndjson.zst"
	objectsFile  = "objects.ndjson.zst"
	eventsFile   = "events.ndjson.zst"
	deadFile     = "dead.ndjson.zst"
)

// Record is a line of the records. Without a value the record is not there.
type Record struct {
	Key   string `json:"k"`
	Value []byte `json:"v,omitempty"`
}

// Message is a line of the events and of the dead letters.
type Message struct {
	Seq     uint64              `json:"n,omitempty"` // of an event, in SPOOL_EVENTS; older snapshots do not say it
	Stored  int64               `json:"t,omitempty"` // and when it was stored, Unix nanoseconds
	Subject string              `json:"s"`
	Header  map[string][]string `json:"h,omitempty"`
	Data    []byte              `json:"d"`
}

// Object is a line of the objects. Without a name it is an upload that went on.
type Object struct {
	Bucket string `json:"bucket"`
	Token  string `json:"token"`
	Name   string `json:"name,omitempty"`
	Size   int64  `json:"size"`
	Chunks []int  `json:"chunks"` // their lengths: a reader of a pack knows its first one as the header
	Sum    string `json:"sha256"`
}

// ErrRepository: the directory is not what it must be.
var ErrRepository = errors.New("bad backup")

// Open opens a repository; with create it makes one of a directory that is empty or not there.
func Open(dir string, create bool) (*Repository, error) {
	r := &Repository{dir}
	snapshots := filepath.Join(dir, "snapshots")
	if _, err := os.Stat(snapshots); err == nil || !create {
		if err != nil {
			return nil, fmt.Errorf("%w: %s holds no backup: %w", ErrRepository, dir, err)
		}
		return r, nil
	}
	there, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if len(there) > 0 {
		return nil, fmt.Errorf("%w: %s is neither empty nor a backup: give a directory of its own", ErrRepository, dir)
	}
	for _, one := range []string{snapshots, filepath.Join(dir, "objects")} {
		if err := os.MkdirAll(one, 0o700); err != nil {
			return nil, err
		}
	}
	return r, syncDir(dir)
}

// Snapshots lists what was finished, oldest first.
func (r *Repository) Snapshots() ([]Manifest, error) {
	dirs, err := os.ReadDir(filepath.Join(r.dir, "snapshots"))
	if err != nil {
		return nil, err
	}
	var out []Manifest
	for _, d := range dirs {
		if strings.HasPrefix(d.Name(), ".") { // one that did not end
			continue
		}
		m, err := r.manifest(d.Name())
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b Manifest) int { return a.Time.Compare(b.Time) })
	return out, nil
}

// Snapshot finds one by its id, the newest when that is "".
func (r *Repository) Snapshot(id string) (Manifest, error) {
	if id != "" {
		return r.manifest(id)
	}
	all, err := r.Snapshots()
	if err != nil {
		return Manifest{}, err
	}
	if len(all) == 0 {
		return Manifest{}, fmt.Errorf("%w: %s has no finished snapshot", ErrRepository, r.dir)
	}
	return all[len(all)-1], nil
}

func (r *Repository) manifest(id string) (m Manifest, err error) {
	if filepath.Base(id) != id {
		return m, fmt.Errorf("%w: snapshot %q", ErrRepository, id)
	}
	b, err := os.ReadFile(filepath.Join(r.dir, "snapshots", id, manifestFile))
	if err != nil {
		return m, fmt.Errorf("%w: snapshot %s: %w", ErrRepository, id, err)
	}
	if err := jsonscan.Decode(b, &m); err != nil {
		return m, fmt.Errorf("%w: snapshot %s: %w", ErrRepository, id, err)
	}
	if m.Format != format {
		return m, fmt.Errorf("%w: snapshot %s has format %d; this program reads format %d", ErrRepository, id, m.Format, format)
	}
	return m, nil
}

// read gives the lines of a file of a snapshot to f, and checks the file against the manifest.
func read[T any](r *Repository, m Manifest, file string, f func(T) error) error {
	name := filepath.Join(r.dir, "snapshots", m.ID, file)
	in, err := os.Open(filepath.Clean(name))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrRepository, err)
	}
	defer in.Close()
	sum := sha256.New()
	z, err := zstd.NewReader(io.TeeReader(in, sum), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return err
	}
	defer z.Close()
	dec := json.NewDecoder(z)
	for {
		var line T
		err := dec.Decode(&line)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("%w: %s: %w", ErrRepository, name, err)
		}
		if err := f(line); err != nil {
			return err
		}
	}
	if _, err := io.Copy(sum, in); err != nil {
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != m.Files[file] {
		return fmt.Errorf("%w: %s has SHA-256 %s, its manifest says %s", ErrRepository, name, got, m.Files[file])
	}
	return nil
}

// newestObjects are those of the newest snapshot, by bucket and token.
func (r *Repository) newestObjects() (map[string]Object, error) {
	all, err := r.Snapshots()
	if err != nil || len(all) == 0 {
		return nil, err
	}
	out := map[string]Object{}
	err = read(r, all[len(all)-1], objectsFile, func(o Object) error { out[o.Bucket+"/"+o.Token] = o; return nil })
	return out, err
}

func (r *Repository) objectPath(token string) string {
	sum := sha256.Sum256([]byte(token)) // tokens of one process begin alike, and may come from others
	name := hex.EncodeToString(sum[:8])
	return filepath.Join(r.dir, "objects", name[:2], name)
}

func (r *Repository) has(o Object) bool {
	st, err := os.Stat(r.objectPath(o.Token))
	return err == nil && st.Size() == o.Size
}

// putObject writes the file of an object. A crash leaves one that no snapshot names; it is written anew.
func (r *Repository) putObject(token string, write func(io.Writer) error) error {
	path := r.objectPath(token)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return replace(path, write)
}

// replace writes a file beside path and puts it in its place when it is durable.
func replace(path string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }()
	w := bufio.NewWriterSize(f, 256<<10)
	if err := errors.Join(write(w), w.Flush(), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// snapshot is one in the making, under a name that nobody takes for a finished one.
type snapshot struct {
	repo  *Repository
	id    string
	time  time.Time
	dir   string
	files map[string]string
}

func (r *Repository) begin(now time.Time) (*snapshot, error) {
	s := &snapshot{repo: r, time: now.UTC(), id: now.UTC().Format("20060102T150405.000Z"), files: map[string]string{}}
	dir, err := os.MkdirTemp(filepath.Join(r.dir, "snapshots"), "."+s.id+"-*")
	s.dir = dir
	return s, err
}

// abandon drops what was not finished.
func (s *snapshot) abandon() { _ = os.RemoveAll(s.dir) }

// list writes a file of lines and counts them.
func (s *snapshot) list(file string, fill func(add func(any) error) error) (n int, err error) {
	sum := sha256.New()
	err = replace(filepath.Join(s.dir, file), func(w io.Writer) error {
		z, err := zstd.NewWriter(io.MultiWriter(w, sum), zstd.WithEncoderConcurrency(1))
		if err != nil {
			return err
		}
		enc := json.NewEncoder(z)
		enc.SetEscapeHTML(false)
		err = fill(func(line any) error { n++; return enc.Encode(line) })
		return errors.Join(err, z.Close())
	})
	s.files[file] = hex.EncodeToString(sum.Sum(nil))
	return n, err
}

func (s *snapshot) writeObjects(objects map[string]Object) (n int, size int64, err error) {
	n, err = s.list(objectsFile, func(add func(any) error) error {
		for _, o := range objects {
			size += o.Size
			if err := add(o); err != nil {
				return err
			}
		}
		return nil
	})
	return n, size, err
}

// finish makes the snapshot one: the manifest, then the name.
func (s *snapshot) finish(m Manifest) (Manifest, error) {
	m.Format, m.ID, m.Time, m.Files = format, s.id, s.time, s.files
	err := replace(filepath.Join(s.dir, manifestFile), func(w io.Writer) error {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(m)
	})
	if err != nil {
		return m, err
	}
	parent := filepath.Join(s.repo.dir, "snapshots")
	if err := os.Rename(s.dir, filepath.Join(parent, s.id)); err != nil {
		return m, err
	}
	return m, syncDir(parent)
}
