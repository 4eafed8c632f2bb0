package interchange

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"

	"spool/pkg/client"
	"spool/pkg/sessions"
)

// workspaceFile is in which GitHub Copilot CLI keeps the name of a session, beside its file.
const workspaceFile = "workspace.yaml"

// workspace stages that file where there is none: the program would make one with the next prompt as the name. One that is there stays, as
// does the program's choice where no name is known.
func (w *materialize) workspace(ctx context.Context, main client.Thread, file string) error {
	name := path.Join(path.Dir(file), workspaceFile)
	if _, err := w.Dir.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	info, err := w.Client.Internal().SessionInfo(ctx, main.Session)
	if err != nil || info.Title+info.Prompt == "" {
		return err
	}
	var text strings.Builder
	line := func(key, value string) {
		if value != "" {
			fmt.Fprintf(&text, "%s: %q\n", key, value) // YAML has all escapes of Go, and takes no character that Go escapes as it is
		}
	}
	line("id", info.ID)
	line("cwd", cmp.Or(w.Cwd, info.Cwd))
	line("name", sessions.Row{Info: info}.Name())
	fmt.Fprintf(&text, "user_named: %t\n", info.TitleSource == sessions.TitleUser)
	line("created_at", sessions.FormatTime(time.UnixMilli(info.Created)))
	line("updated_at", sessions.FormatTime(time.UnixMilli(main.Head.Updated)))
	f := File{Dir: w.Dir, Name: name, Mode: 0o600, Spare: true}
	s, err := f.stage(func(out io.Writer) error {
		_, err := io.WriteString(out, text.String())
		return err
	})
	if err == nil {
		w.staged = append(w.staged, s)
	}
	return err
}
