package interchange_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"spool/internal/must"
	"spool/internal/natsio"
	"spool/pkg/client"
	"spool/pkg/sessions"
)

// Who changes the title in the header of an exported file names the session, however it began and whoever gave it its
// title before. The file as it was exported changes nothing, nor does one that was exported before the session was named again.
func TestTitleInAnExportedFile(t *testing.T) {
	imported := func(lines string) func(*testing.T, *natsio.Conn, *client.Client) {
		return func(t *testing.T, conn *natsio.Conn, _ *client.Client) {
			src := t.TempDir()
			write(t, filepath.Join(src, "s.jsonl"), []byte(lines+"\n"+message("a", "null", "one")+"\n"))
			load(t, conn, src)
		}
	}
	titled := func(title string) string { return strings.Replace(header("s", 3), `"cwd"`, title+`"cwd"`, 1) }
	slot := `{"type":"title","v":1,"title":"Old","pad":"      "}` + "\n"
	for name, begin := range map[string]func(*testing.T, *natsio.Conn, *client.Client){
		"new": func(t *testing.T, _ *natsio.Conn, cl *client.Client) {
			must.Do(t, cl.Session("s").New(t.Context(), "/w", ""))
		},
		"of agent": func(t *testing.T, conn *natsio.Conn, _ *client.Client) {
			publish(t, conn, "s", message("a", "null", "one"))
		},
		"retitled by its agent": func(t *testing.T, conn *natsio.Conn, _ *client.Client) {
			publish(t, conn, "s", titled(`"title":"Old",`), message("a", "null", "one"),
				`{"type":"title_change","id":"b","parentId":"a","title":"Newer"}`)
		},
		"fork": func(t *testing.T, conn *natsio.Conn, cl *client.Client) {
			publish(t, conn, "of", header("of", 3), message("a", "null", "one"))
			must.Do(t, cl.Session("of").Name(t.Context(), "Old", false))
			must.Do(t, cl.Session("of").Fork(t.Context(), "s", client.SessionFork{}))
		},
		"imported":                 imported(header("s", 3)),
		"imported with a title":    imported(titled(`"title":"Old",`)),
		"imported, of the user":    imported(titled(`"title":"Old","titleSource":"user",`)),
		"imported, made up":        imported(titled(`"title":"Old","titleSource":"auto",`)),
		"imported with a slot":     imported(slot + header("s", 3)),
		"imported with both":       imported(slot + titled(`"title":"Older",`)),
		"imported with both, user": imported(slot + titled(`"title":"Old","titleSource":"user",`)),
	} {
		for _, named := range []string{"", "by its user", "by a program"} {
			t.Run(name+" "+named, func(t *testing.T) {
				conn, dir := system(t), t.TempDir()
				cl := client.New(conn)
				begin(t, conn, cl)
				if named != "" {
					must.Do(t, ignoreTitled(cl.Session("s").Name(t.Context(), "Given", named == "by a program")))
				}
				out := must.Get(export(t, conn, dir, "s", false))(t)
				was := must.Get(cl.Session("s").Info(t.Context()))(t)
				load(t, conn, filepath.Join(dir, "sessions"))
				title := func(want, when string) {
					t.Helper()
					if info := must.Get(cl.Session("s").Info(t.Context()))(t); info.Title != want {
						t.Errorf("%s the title is %q by %q, want %q", when, info.Title, info.TitleSource, want)
					}
				}
				title(was.Title, "of the export as it is")
				file := filepath.Join(dir, filepath.FromSlash(out.File))
				exported := must.Get(os.ReadFile(file))(t)
				edit(t, file, "Edited")
				load(t, conn, filepath.Join(dir, "sessions"))
				title("Edited", "of the edited file")
				load(t, conn, filepath.Join(dir, "sessions"))
				title("Edited", "imported again")
				past := time.Now().Add(-time.Hour)
				write(t, file, exported)
				must.Do(t, os.Chtimes(file, past, past))
				load(t, conn, filepath.Join(dir, "sessions"))
				title("Edited", "of an older export")
				must.Do(t, ignoreTitled(cl.Session("s").Name(t.Context(), "Later", false)))
				load(t, conn, filepath.Join(dir, "sessions"))
				title("Later", "of an older export, named since")
			})
		}
	}
}

// So does who moves it there; what no session can have is said.
func TestDirectoryInAnExportedFile(t *testing.T) {
	conn, dir := system(t), t.TempDir()
	cl := client.New(conn)
	must.Do(t, cl.Session("s").New(t.Context(), "/w", ""))
	publish(t, conn, "s", message("a", "null", "one"))
	out := must.Get(export(t, conn, dir, "s", false))(t)
	file := filepath.Join(dir, filepath.FromSlash(out.File))
	text := string(must.Get(os.ReadFile(file))(t))
	write(t, file, []byte(strings.Replace(text, `"cwd":"/w"`, `"title":"Two  words","cwd":"/moved"`, 1)))
	for range 2 {
		res := load(t, conn, filepath.Join(dir, "sessions"))
		if info := must.Get(cl.Session("s").Info(t.Context()))(t); info.Cwd != "/moved" || info.Title != "Two words" ||
			len(res.Files[0].Warnings) > 0 {
			t.Errorf("the session is %q in %s, warnings %q", info.Title, info.Cwd, res.Files[0].Warnings)
		}
	}
	edit(t, file, strings.Repeat("x", 5000))
	res := load(t, conn, filepath.Join(dir, "sessions"))
	if info := must.Get(cl.Session("s").Info(t.Context()))(t); info.Title != "Two words" || len(res.Files[0].Warnings) != 1 {
		t.Errorf("the session is %q, warnings %q, want one", info.Title, res.Files[0].Warnings)
	}
}

// What else is new in the file does not count as said of its session.
func TestTitleInAnExportedFileThatGoesOn(t *testing.T) {
	conn, dir := system(t), t.TempDir()
	cl := client.New(conn)
	publish(t, conn, "s", message("a", "null", "one"))
	must.Do(t, cl.Session("s").Name(t.Context(), "Given", false))
	out := must.Get(export(t, conn, dir, "s", false))(t)
	file := filepath.Join(dir, filepath.FromSlash(out.File))
	text := string(must.Get(os.ReadFile(file))(t))
	write(t, file, []byte(strings.Replace(text, `"Given"`, `"Edited"`, 1)+message("b", `"a"`, "two")+"\n"))
	res := load(t, conn, filepath.Join(dir, "sessions"))
	info := must.Get(cl.Session("s").Info(t.Context()))(t)
	if f := res.Files[0]; f.Published != 1 || info.Title != "Edited" || len(f.Warnings) > 0 {
		t.Errorf("%d new entries, the title is %q, warnings %q, want one, as edited, none", f.Published, info.Title, f.Warnings)
	}
}

func ignoreTitled(err error) error {
	if err != nil && strings.Contains(err.Error(), client.ErrTitled.Error()) {
		return nil
	}
	return err
}

// edit gives the header line of a file a title, as with an editor.
func edit(t *testing.T, file, title string) {
	t.Helper()
	all := strings.SplitAfter(string(must.Get(os.ReadFile(file))(t)), "\n")
	for i, line := range all {
		if !strings.Contains(line, `"type":"session"`) {
			continue
		}
		h := must.Get(sessions.ParseHeader([]byte(line)))(t)
		if h.Title != "" {
			all[i] = strings.Replace(line, `"title":"`+h.Title+`"`, `"title":"`+title+`"`, 1)
		} else {
			all[i] = strings.Replace(line, `,"cwd"`, `,"title":"`+title+`","cwd"`, 1)
		}
	}
	write(t, file, []byte(strings.Join(all, "")))
	now := time.Now() // what the kernel gives a file can be some milliseconds older
	must.Do(t, os.Chtimes(file, now, now))
}
