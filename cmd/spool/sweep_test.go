package main

import (
	"bytes"
	"cmp"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"spool/internal/must"
	"spool/internal/service"
)

// sweep is a directory of its own in which command lines are tried, with a server that is not there.
type sweep struct {
	t      *testing.T
	dir    string
	server string
	model  *kong.Application
}

func newSweep(t *testing.T) *sweep {
	dir := t.TempDir()
	t.Chdir(dir)
	for _, of := range []string{"HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"} {
		t.Setenv(of, filepath.Join(dir, "home"))
	}
	must.Do(t, os.MkdirAll(filepath.Join(dir, "home"), 0o700))
	must.Do(t, os.Mkdir("there", 0o700))
	must.Do(t, os.WriteFile("file", []byte("{}\n"), 0o600))
	free := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	must.Do(t, free.Close())
	server := "nats://" + free.Addr().String()
	t.Setenv("NATS_URL", server)
	t.Setenv("NATS_CONTEXT", "")
	var c cli
	return &sweep{t, dir, server, must.Get(kong.New(&c, vars()))(t).Model}
}

// good is a value that an argument or a flag takes.
func (s *sweep) good(v *kong.Value) string {
	switch {
	case v.Tag.Type == "existingdir":
		return "there"
	case v.Tag.Type == "existingfile":
		return "file"
	case v.Enum != "":
		return strings.Split(strings.TrimPrefix(v.Enum, ","), ",")[0]
	case v.Target.Kind() == reflect.String, v.Target.Type() == reflect.TypeFor[[]string]():
		return "s"
	}
	return "1"
}

// line is a command with as little as it takes, and more behind it.
func (s *sweep) line(leaf *kong.Node, but string, more ...string) []string {
	line := strings.Fields(commandOf(leaf))
	for _, group := range leaf.AllFlags(true) {
		for _, f := range group {
			if f.Required && f.Name != but {
				line = append(line, "--"+f.Name+"="+s.good(f.Value))
			}
		}
	}
	line = append(line, more...)
	for _, p := range leaf.Positional {
		if p.Required && p.Name != but {
			line = append(line, s.good(p))
		}
	}
	return line
}

// refused tries a command line, and wants that it is none: by its code, in one line that has words and one that says where the help is,
// with nothing on standard output and nothing made.
func (s *sweep) refused(line []string, words ...string) {
	s.t.Helper()
	var out, errw bytes.Buffer
	code := run(line, strings.NewReader(""), &out, &errw)
	said, help, _ := strings.Cut(errw.String(), "\n")
	for _, word := range words {
		if !strings.Contains(said, word) {
			s.t.Errorf("spool %q says %q, want %s in it", line, said, word)
		}
	}
	if code != service.ExitUsage || !strings.HasPrefix(help, "Try spool ") || strings.Count(help, "\n") != 1 || out.Len() > 0 {
		s.t.Errorf("spool %q = %d %q %q, want %d, one line, and where the help is", line, code, &out, &errw, service.ExitUsage)
	}
	s.made(line)
}

// made fails when there is something that was not there before, and removes it.
func (s *sweep) made(line []string) {
	s.t.Helper()
	must.Do(s.t, filepath.WalkDir(s.dir, func(path string, _ fs.DirEntry, err error) error {
		switch name, _ := filepath.Rel(s.dir, path); name {
		case ".", "there", "file", "home":
			return err
		default:
			s.t.Errorf("spool %q made %s", line, name)
			if err := os.RemoveAll(path); err != nil {
				return err
			}
			return fs.SkipDir
		}
	}))
}

// leaves are all commands but those that have flags of their own behind their name.
func (s *sweep) leaves(f func(leaf *kong.Node)) {
	n := 0
	for _, leaf := range s.model.Leaves(true) {
		if !leaf.Passthrough {
			n++
			f(leaf)
		}
	}
	if n < 80 {
		s.t.Errorf("%d commands were tried, want 80 or more", n)
	}
}

// TestWrongArguments: of every command, an argument that is missing and one too many are named.
func TestWrongArguments(t *testing.T) {
	s := newSweep(t)
	s.leaves(func(leaf *kong.Node) {
		open := false
		line := s.line(leaf, "")
		for i, word := range line {
			if word == "there" || word == "file" {
				s.refused(slices.Concat(line[:i], []string{"no/such"}, line[i+1:]), "no/such")
			}
		}
		last := ""
		for _, p := range leaf.Positional {
			open = open || p.IsCumulative()
			if p.Required {
				last = p.Name
			}
		}
		if last != "" {
			s.refused(s.line(leaf, last), last, "missing")
		}
		for _, group := range leaf.AllFlags(true) {
			for _, f := range group {
				if f.Required {
					s.refused(s.line(leaf, f.Name), "--"+f.Name, "missing")
				}
			}
		}
		if !open {
			for _, p := range leaf.Positional {
				if !p.Required {
					line = append(line, s.good(p))
				}
			}
			s.refused(append(line, "extra"), "extra", "one word too many")
		}
	})
}

// TestWrongValues: of every flag of every command that takes a number, a time, a size, one of a few words or a file, a value that is none
// is named with the flag, before anything is done. So is none at all, as of a variable of a script that is not set.
func TestWrongValues(t *testing.T) {
	s, tried := newSweep(t), map[string]bool{}
	s.leaves(func(leaf *kong.Node) {
		for _, group := range leaf.AllFlags(true) {
			for _, f := range group {
				wrong := wrongValues(f)
				if f.Group != nil && f.Group.Key == "Connection:" && (wrong == nil || tried[f.Name]) { // every command has the same
					continue
				}
				tried[f.Name] = true
				if f.PlaceHolder == strings.ToUpper(f.Name) && (f.Name == "status" || f.Name == "state") && f.Enum == "" {
					t.Errorf("--%s of %s takes any text, want one of a few words", f.Name, commandOf(leaf))
				}
				file := f.PlaceHolder == "FILE" || f.PlaceHolder == "DIR"
				if file && wrong == nil && f.Target.Kind() == reflect.String && f.Name != "cwd" {
					t.Errorf("--%s of %s takes any text for a %s, want a type of kong's", f.Name, commandOf(leaf), f.PlaceHolder)
				}
				if wrong != nil && f.Name != "http" && f.PlaceHolder != "URL" { // of an address it is that there is none
					wrong = append(wrong, "")
				}
				for _, value := range wrong {
					words := []string{"--" + f.Name, cmp.Or(value, `""`)}
					if f.Name == "http" {
						words[0] = "listen"
					}
					s.refused(s.line(leaf, f.Name, "--"+f.Name+"="+value), words...)
				}
			}
		}
	})
}

// TestEmptyEnvironment: a variable of the environment that is set to nothing says as little as one that is not set, to every command.
func TestEmptyEnvironment(t *testing.T) {
	s := newSweep(t)
	empty := map[string]bool{}
	s.leaves(func(leaf *kong.Node) {
		for _, group := range leaf.AllFlags(true) {
			for _, f := range group {
				for _, env := range f.Envs {
					if env != "NATS_URL" && !empty[env] {
						empty[env] = true
						t.Setenv(env, "")
					}
				}
			}
		}
	})
	if len(empty) < 20 {
		t.Errorf("%d variables are of flags, want 20 or more", len(empty))
	}
	for _, line := range [][]string{{"session", "ls"}, {"backup", "./new"}, {"gc"}} {
		var out, errw bytes.Buffer
		if code := run(line, strings.NewReader(""), &out, &errw); code == service.ExitUsage || strings.Contains(errw.String(), `""`) {
			t.Errorf("spool %q with empty variables = %d %s", line, code, errw.String())
		}
	}
}

// wrongValues are values that a flag does not take, whatever else is said.
func wrongValues(f *kong.Flag) []string {
	of := f.Target.Type()
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	switch {
	case f.Enum != "":
		return []string{"nosuch"}
	case f.Tag.Type == "existingfile", f.Tag.Type == "existingdir":
		return []string{"no/such"}
	case f.Tag.Type == "path":
		return []string{"foo://x"}
	case of == reflect.TypeFor[time.Duration]():
		return []string{"soon", "-8765h"}
	case of == reflect.TypeFor[size](), of.Kind() == reflect.Float64, of.Kind() >= reflect.Int && of.Kind() <= reflect.Int64:
		return []string{"many", "-8765"}
	case of.Kind() >= reflect.Uint && of.Kind() <= reflect.Uint64:
		return []string{"many", "-8765"}
	case of == reflect.TypeFor[service.Schedule](), f.PlaceHolder == "TIME":
		return []string{"soon"}
	case f.PlaceHolder == "DATE":
		return []string{"soon", "2026-02-30"}
	case f.Name == "http":
		return []string{"foo://x", "127.0.0.1:99999", "0.0.0.0:7717"}
	case f.PlaceHolder == "URL" && f.Name != "nats": // TestWrongLines has that one
		return []string{"foo://x"}
	}
	return nil
}

// TestUpMakesNothing: without a server that is named, spool up refuses what it cannot do before it makes its data directory.
func TestUpMakesNothing(t *testing.T) {
	s := newSweep(t)
	t.Setenv("NATS_URL", "")
	for flag, value := range map[string]string{
		"data": "foo://x", "listen": "127.0.0.1:99999", "http": "127.0.0.1:99999", "items-age": "-1h", "gc-quarantine": "-1h",
		"retention-share": "7", "scrub-rate": "fast", "sync": "soon", "cors-origin": "page", "rate-user": "many",
	} {
		line := []string{"up", "--data", "new", "--" + flag + "=" + value}
		s.refused(line, strings.TrimSuffix(value, "h"))
	}
}

// TestCheckOutfile: a check whose answer cannot be written says that nothing is known.
func TestCheckOutfile(t *testing.T) {
	newSweep(t)
	var out, errw bytes.Buffer
	code := run([]string{"check", "--outfile", "no/such"}, strings.NewReader(""), &out, &errw)
	if code != int(levelUnknown) || !strings.Contains(errw.String(), "--outfile no/such: ") || strings.Count(errw.String(), "\n") != 1 {
		t.Errorf("check --outfile no/such = %d %q, want %d and the file", code, &errw, levelUnknown)
	}
}
